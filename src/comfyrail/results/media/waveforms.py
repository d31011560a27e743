"""The waveform of a sound: a picture and its peaks. The sound is decoded as a stream, so that an
hour of it needs no more memory than a second.
"""

import json
import time
from collections.abc import Iterator
from typing import cast

import numpy as np
from av.audio.resampler import AudioResampler
from av.error import FFmpegError
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from comfyrail.results.media.containers import opened
from comfyrail.results.media.findings import Findings, seconds
from comfyrail.results.media.thumbnails import save_webp
from comfyrail.results.media.unusable import Unusable

PEAKS = 1000
WIDTH, HEIGHT = 1024, 256
MOST_SECONDS = 24 * 3600.0
DECODING_SECONDS = 10.0
"""Of this process' time: what was not heard by then is not in the picture."""
COLOUR = (64, 128, 200, 255)
_FIRST_BUCKET = 64
_MOST_BUCKETS = 8192

Floats = NDArray[np.float32]


class PeakMeter:
    """The loudest of every so many samples. When there are too many, two become one."""

    def __init__(self) -> None:
        self.samples = 0
        self._bucket = _FIRST_BUCKET
        self._peaks: Floats = np.zeros(0, np.float32)
        self._rest: Floats = np.zeros(0, np.float32)

    def add(self, samples: Floats) -> None:
        """`samples`: how loud each is, 0 to 1."""
        self.samples += len(samples)
        rest = np.concatenate([self._rest, samples])
        whole = len(rest) // self._bucket * self._bucket
        new = rest[:whole].reshape(-1, self._bucket).max(axis=1) if whole else rest[:0]
        self._rest = rest[whole:]
        self._peaks = np.concatenate([self._peaks, new])
        while len(self._peaks) > _MOST_BUCKETS:
            self._join_pairs()

    def _join_pairs(self) -> None:
        if len(self._peaks) % 2:
            # The odd one begins the next bucket: as many samples as it stands for.
            last = np.full(self._bucket, self._peaks[-1], np.float32)
            self._rest = np.concatenate([last, self._rest])
            self._peaks = self._peaks[:-1]
        self._peaks = self._peaks.reshape(-1, 2).max(axis=1)
        self._bucket *= 2

    def peaks(self, count: int) -> Floats:
        rest = self._rest.max(initial=0.0)
        found = np.append(self._peaks, np.float32(rest)) if len(self._rest) else self._peaks
        if not len(found):
            return np.zeros(count, np.float32)
        edges = np.arange(count + 1) * len(found) / count
        starts = np.floor(edges[:-1]).astype(int)
        stops = np.maximum(np.ceil(edges[1:]).astype(int), starts + 1)
        return np.array(
            [found[start:stop].max() for start, stop in zip(starts, stops, strict=True)],
            np.float32,
        )


def make_waveform(findings: Findings) -> None:
    meter = PeakMeter()
    rate, is_whole = _listen(findings, meter)
    if not meter.samples:
        raise Unusable("There is no sound in it.")
    length = meter.samples / rate if rate else None
    if is_whole:
        findings.note(duration=seconds(length))
    peaks = meter.peaks(PEAKS)
    file = findings.folder / "peaks.json"
    content = {
        "duration": seconds(length),
        "is_whole": is_whole,
        "peaks": [round(float(peak), 4) for peak in peaks],
    }
    file.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")
    findings.made("peaks", file, "application/json")
    save_webp(_drawn(meter.peaks(WIDTH)), "waveform", findings)


def _listen(findings: Findings, meter: PeakMeter) -> tuple[int, bool]:
    """The rate of the samples, and whether all of it was heard."""
    until = time.monotonic() + DECODING_SECONDS
    with opened(findings.path, findings.content_type) as container:
        stream = container.streams.audio[0]
        stream.codec_context.thread_count = 1
        rate = stream.sample_rate
        frames = container.decode(stream)
        resampler = AudioResampler(format="fltp")
        while True:
            try:
                frame = next(frames, None)
            except FFmpegError:
                return rate, meter.samples > 0  # it is cut off: as far as it goes
            if frame is None:
                return rate, True
            for part in resampler.resample(frame):
                meter.add(_loudness(cast("Floats", part.to_ndarray())))
            if time.monotonic() > until or meter.samples > MOST_SECONDS * max(rate, 1):
                return rate, False


def _loudness(samples: Floats) -> Floats:
    """The loudest channel of each sample."""
    loudest: Floats = np.nan_to_num(np.abs(samples).max(axis=0), nan=0.0)
    return loudest.clip(0.0, 1.0)


def _drawn(peaks: Floats) -> Image.Image:
    picture = Image.new("RGBA", (WIDTH, HEIGHT), (0, 0, 0, 0))
    draw = ImageDraw.Draw(picture)
    for x, top, bottom in _bars(peaks):
        draw.line([(x, top), (x, bottom)], fill=COLOUR)
    return picture


def _bars(peaks: Floats) -> Iterator[tuple[int, int, int]]:
    middle = HEIGHT // 2
    for x, peak in enumerate(peaks):
        half = round(float(peak) * (middle - 1))
        yield x, middle - half, middle + half
