r"""Write a text with wildcards as a regular expression that never searches twice.

``LIKE '%a%b%c%'`` becomes ``.*a.*b.*c.*`` in Spark, which a hostile text makes cost its length to the power of the
wildcards. The first place at which a part fits is always good enough for the parts behind it, so each part is an atomic
group that keeps the first place it found: ``(?>.*?a)(?>.*?b)``. Java and Python read the text alike.
"""

import re

from strandline.alerting.rules.condition import Glob, Wild


def as_regex(glob: Glob) -> str:
    """Return a regular expression for a search, which the whole text must match."""
    runs: list[str] = [""]
    for part in glob.parts:
        if part is Wild.MANY:
            runs.append("")
        elif part is Wild.ONE:
            runs[-1] += "."
        else:
            runs[-1] += re.escape(part)
    first, *rest = runs
    if not rest:
        return rf"(?s)\A{first}(?!.)"
    *middle, last = rest
    found = "".join(f"(?>.*?{run})" for run in middle if run)
    # The last part may end at the end only; a lookahead for it there needs no second search.
    return rf"(?s)\A{first}{found}" + (rf".*{last}(?!.)" if last else "")
