"""Part three: does a batch cost more because many came before it? A hundred rows at a time, four hundred times."""

from tests.benchmarks.ground import ROWS, Ground
from tests.benchmarks.samples import Sample
from tests.benchmarks.small_batches import SmallBatches

PART = "history"
YOUNG, OLD = 40, 400
BATCHES = OLD + 10


def run(ground: Ground, rows: tuple[str, ...]) -> None:
    """Measure what is missing; a row's two samples carry the number of their batch."""
    missing = [name for name in rows if not ground.samples.has(PART, name, OLD)]
    if not missing:
        return
    small = SmallBatches(ground, warm=1, batches=BATCHES)
    for name in missing:
        clock = small.aged(ROWS[name])
        taken = []
        for batch in (YOUNG, OLD):
            wall, cpu, read = clock.around(batch)
            ground.tell(
                f"{PART} {name:14} batch {batch}  {wall:6.3f} s wall, {read / 1e6:6.2f} MB read"
            )
            taken.append(
                Sample(
                    part=PART,
                    row=name,
                    contestant="strandline",
                    number=batch,
                    wall=wall,
                    cpu=cpu,
                    read=read,
                )
            )
        ground.samples.add(taken)
