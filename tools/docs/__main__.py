"""Write every generated page anew; ``--check`` names those that list something else than the code has."""

import sys

from tools.docs.pages import PAGES, RUN, TABLED, has_stale_text, write_all

if sys.argv[1:] == ["--check"]:
    stale = [name for name in (*PAGES, *TABLED, *RUN) if has_stale_text(name)]
    sys.exit(f"stale: {', '.join(stale)}" if stale else 0)
write_all()
