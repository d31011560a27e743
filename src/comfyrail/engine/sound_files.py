"""Sounds as files, and the other way round. PyAV is loaded when the first one comes."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.pixels import FloatArray
from comfyrail.sniffing import HEAD_BYTES, Claims, detect, refine

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.container import InputContainer, OutputContainer
    from av.packet import Packet

SAMPLES_A_FRAME = 1024
_LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}
_RATES = {
    "flac": (),
    "aac": (),
    "libmp3lame": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
    "libopus": (8000, 12000, 16000, 24000, 48000),
}
"""Those that an encoder takes; none: all."""
_FORMATS = {"flac": "flac", "libmp3lame": "mp3", "libopus": "ogg"}


def encode_sound(
    samples: FloatArray,
    rate: int,
    codec: str,
    texts: Mapping[str, str],
    check: Callable[[], None],
    *,
    bit_rate: int | None = None,
    options: Mapping[str, str] | None = None,
) -> bytes:
    """One sound [C,samples] as a file with these texts. `check` is called again and again.

    Raises ValueError for a sound that cannot be written so.
    """
    import av  # noqa: PLC0415 - see above

    name, target = _FORMATS[codec], io.BytesIO()
    try:
        with av.open(target, "w", format=name) as container:
            container.metadata.update(texts)
            track = SoundTrack(container, samples, rate, codec, bit_rate=bit_rate, options=options)
            has_sound = track.write(check)
    except av.FFmpegError as error:
        raise ValueError(
            f"A sound of {samples.shape[1]} samples at {rate} Hz cannot be saved as {name}: "
            f"{error.strerror}."
        ) from error
    if not has_sound and samples.shape[1]:
        raise ValueError(
            f"The sound is too short to be saved as {name}: it has {samples.shape[1]} samples."
        )
    if not target.tell():
        raise ValueError(f"There is nothing in the sound that could be saved as {name}.")
    return target.getvalue()


class SoundTrack:
    """A sound [C,samples] in a file that is being written. All tracks of a file must be made
    before any of them is written.
    """

    def __init__(
        self,
        container: "OutputContainer",
        samples: FloatArray,
        rate: int,
        codec: str,
        *,
        bit_rate: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ValueError for a number of channels that has no name."""
        layout = _LAYOUTS.get(len(samples))
        if layout is None:
            raise ValueError(
                f"A sound of {len(samples)} channels cannot be saved: 1, 2, 6 or 8 can."
            )
        allowed = _RATES[codec]
        self._out_rate = rate if not allowed or rate in allowed else _nearest(rate, allowed)
        stream: Any = container.add_stream(codec, rate=self._out_rate, options=dict(options or {}))
        stream.layout = layout
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        self._container, self._stream = container, stream
        self._samples, self._rate, self._layout = samples, rate, layout

    def write(self, check: Callable[[], None]) -> bool:
        """Whether anything came of it. `check` is called again and again."""
        import av  # noqa: PLC0415 - see above

        stream = self._stream
        stream.codec_context.open(strict=False)  # before that nobody knows the size of its frames
        resampler = av.AudioResampler(
            format=stream.format.name,
            layout=self._layout,
            rate=self._out_rate,
            frame_size=stream.frame_size or 0,
        )
        has_sound = False
        for frame in chain(_frames(self._samples, self._rate, self._layout), [None]):
            check()
            for part in resampler.resample(frame):
                has_sound |= self._mux(stream.encode(part))
        return self._mux(stream.encode()) or has_sound

    def _mux(self, packets: "Sequence[Packet[Any]]") -> bool:
        self._container.mux(packets)
        return any(packet.size for packet in packets)


def _nearest(rate: int, allowed: tuple[int, ...]) -> int:
    """The first that loses nothing, or the highest."""
    return next((each for each in allowed if each >= rate), allowed[-1])


def _frames(samples: FloatArray, rate: int, layout: str) -> Iterator["AudioFrame"]:
    from av.audio.frame import AudioFrame as Frame  # noqa: PLC0415 - see above

    for start in range(0, samples.shape[1], SAMPLES_A_FRAME):
        part = np.ascontiguousarray(samples[:, start : start + SAMPLES_A_FRAME], np.float32)
        frame = Frame.from_ndarray(part, format="fltp", layout=layout)
        frame.sample_rate = rate
        frame.pts = start
        frame.time_base = Fraction(1, rate)
        yield frame


def type_of_file(path: Path) -> str:
    """What the first bytes of a film or sound show."""
    with path.open("rb") as file:
        return refine(detect(file.read(HEAD_BYTES)), Claims(path.name))


def decode_sound(container: "InputContainer", check: Callable[[], None]) -> tuple[FloatArray, int]:
    """All of its sound as [C,samples], and the rate. `check` is called with every frame. Raises
    MemoryError where that is too much.
    """
    import av  # noqa: PLC0415 - see above

    stream = container.streams.audio[0]
    resampler = av.AudioResampler(format="fltp")
    parts: list[FloatArray] = []
    count = 0
    for frame in container.decode(stream):
        check()
        for part in resampler.resample(frame):
            samples = np.asarray(part.to_ndarray(), np.float32)
            count += samples.shape[1]
            check_room_for((len(samples), count))
            parts.append(samples)
    if not parts:
        raise ValueError("There is no sound in the file.")
    return np.concatenate(parts, axis=1), stream.sample_rate
