"""Histories of really executed workflows; `bench/record_history.py` made them."""

import gzip
from pathlib import Path
from typing import Literal

from comfyrail.planning.records import ExecutionRecord

DATA = Path(__file__).parent / "data"


def recorded_history(name: Literal["engine", "comfyui"]) -> list[ExecutionRecord]:
    lines = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).split(b"\n")
    records = [ExecutionRecord.decode(line) for line in lines]
    return [record for record in records if record is not None]
