"""Archives: how many files are in them. Nothing is unpacked."""

import zipfile

from comfyrail.results.media.findings import Findings


def look_into(findings: Findings) -> None:
    with zipfile.ZipFile(findings.path) as archive:
        entries = archive.infolist()
        unpacked = sum(min(entry.file_size, 1 << 50) for entry in entries)
        findings.note(format="zip", counts={"files": len(entries), "unpacked_bytes": unpacked})
