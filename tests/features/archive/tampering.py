"""Changes files of an archive, as somebody with the right to write them can."""

from __future__ import annotations

from pathlib import Path

from mcphub.features.archive.duck import duck, literal


def rewrite(path: Path, select: str, where: str = "") -> None:
    other = path.with_suffix(".other")
    with duck() as connection:
        connection.execute(
            f"COPY ({select} FROM read_parquet({literal(str(path))}) {where}) TO {literal(str(other))} "
            "(FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd)"
        )
    other.replace(path)
