"""Films and sounds: what they are, a poster of a film, the waveform of a sound."""

import time
from itertools import islice

from av import AudioStream, VideoFrame, VideoStream
from av.container import InputContainer
from av.error import FFmpegError
from PIL import Image, ImageStat

from comfyrail.results.media.containers import opened, tags_of
from comfyrail.results.media.embedded_texts import graphs
from comfyrail.results.media.findings import Findings, seconds, short
from comfyrail.results.media.picture_files import MOST_PIXELS
from comfyrail.results.media.thumbnails import LARGEST_POSTER, make_poster
from comfyrail.results.media.unusable import Unusable
from comfyrail.results.media.waveforms import make_waveform

MOST_FRAMES_FOR_A_POSTER = 240
POSTER_SECONDS = 10.0
"""Of this process' time: what is the best by then is it."""
BLACK = 20.0
"""A picture whose mean brightness is below shows nothing (0 to 255)."""
COUNTED_BYTES = 1 << 30
COUNTING_SECONDS = 5.0


def look_into(findings: Findings) -> None:
    with opened(findings.path, findings.content_type) as container:
        film, sound = _film_of(container), _sound_of(container)
        if film is None and sound is None:
            raise Unusable("There is neither film nor sound in it.")
        _note_what_it_says(findings, container, film, sound)
    if film is not None:
        _make_poster(findings)
        _count_frames(findings)
    else:
        make_waveform(findings)


def _film_of(container: InputContainer) -> VideoStream | None:
    """The cover of a record is no film."""
    return next(
        (each for each in container.streams.video if not _is_cover(each)),
        None,
    )


def _is_cover(stream: VideoStream) -> bool:
    return bool(stream.disposition & stream.disposition.attached_pic)


def _sound_of(container: InputContainer) -> AudioStream | None:
    return next(iter(container.streams.audio), None)


def _note_what_it_says(
    findings: Findings,
    container: InputContainer,
    film: VideoStream | None,
    sound: AudioStream | None,
) -> None:
    tags = tags_of(container)
    findings.keep_graphs(graphs(tags))
    findings.note(
        kind="audio" if film is None else "video",
        format=findings.content_type.partition("/")[2].removeprefix("x-"),
        duration=seconds(None if container.duration is None else container.duration / 1_000_000),
        title=short(tags.get("title")),
    )
    if film is not None:
        rate = film.average_rate
        findings.note(
            width=film.width or None,
            height=film.height or None,
            fps=None if not rate else round(float(rate), 3),
            frames=film.frames or None,
            video_codec=_codec(film),
        )
    if sound is not None:
        findings.note(
            audio_codec=_codec(sound),
            sample_rate=sound.sample_rate or None,
            channels=sound.channels or None,
        )


def _codec(stream: VideoStream | AudioStream) -> str:
    """Not by the name of the program that decodes it."""
    codec = stream.codec_context.codec
    return str(getattr(codec, "canonical_name", codec.name))


def _make_poster(findings: Findings) -> None:
    until = time.monotonic() + POSTER_SECONDS
    best: tuple[float, Image.Image] | None = None
    with opened(findings.path, findings.content_type) as container:
        film = _film_of(container)
        if film is None or film.width * film.height > MOST_PIXELS:
            raise Unusable("Its pictures are larger than is unpacked here.")
        film.codec_context.thread_count = 1
        try:
            for frame in islice(container.decode(film), MOST_FRAMES_FOR_A_POSTER):
                picture = _picture_of(frame)
                brightness = ImageStat.Stat(picture.convert("L").resize((64, 64))).mean[0]
                if best is None or brightness > best[0]:
                    best = brightness, picture
                if brightness >= BLACK or time.monotonic() > until:
                    break
        except FFmpegError:
            if best is None:
                raise
    if best is None:
        raise Unusable("There is no picture in it.")
    make_poster(best[1], findings)


def _picture_of(frame: VideoFrame) -> Image.Image:
    scale = min(1.0, LARGEST_POSTER / max(frame.width, frame.height))
    width, height = (max(1, round(side * scale)) for side in (frame.width, frame.height))
    small = frame.reformat(width=width, height=height, format="rgb24")
    picture = Image.fromarray(small.to_ndarray())
    turned = getattr(frame, "rotation", 0) % 360
    return picture.rotate(turned, expand=True) if turned else picture


def _count_frames(findings: Findings) -> None:
    """What the packets say of frames and length counts more than what the header says; of a very
    large film the header must do.
    """
    if findings.path.stat().st_size > COUNTED_BYTES:
        return
    until = time.monotonic() + COUNTING_SECONDS
    frames, end = 0, 0.0
    with opened(findings.path, findings.content_type) as container:
        film = _film_of(container)
        try:
            for packet in container.demux():
                if packet.size and packet.stream is film:
                    frames += 1
                if packet.pts is not None and packet.time_base is not None:
                    length = (packet.duration or 0) + packet.pts
                    end = max(end, float(length * packet.time_base))
                if time.monotonic() > until:
                    return
        except FFmpegError:
            pass  # it is cut off: as far as it goes
    findings.note(frames=frames or None, duration=seconds(end or None))
