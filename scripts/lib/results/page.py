"""Tables in Markdown, and the parts of a page that a program writes."""

import re


def table(header, rows):
    """The first column is left-aligned, the others are numbers."""
    return rows_between(header, "|---" + "|---:" * (len(header) - 1) + "|", rows)


def text_table(header, rows):
    """All columns are left-aligned."""
    return rows_between(header, "|---" * len(header) + "|", rows)


def rows_between(header, rule, rows):
    return "\n".join(["| " + " | ".join(header) + " |", rule] +
                     ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def seconds(value):
    return f"{value:,.0f}"


def verdict(met):
    return "met" if met else "missed"


def replace_block(path, name, text):
    """Replaces what is between `<!-- begin NAME -->` and `<!-- end NAME -->` of the page."""
    page = path.read_text()
    pattern = re.compile(rf"(<!-- begin {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)", re.DOTALL)
    if not pattern.search(page):
        raise RuntimeError(f"{path}: no block named {name}")
    path.write_text(pattern.sub(lambda m: f"{m[1]}\n{text}\n\n{m[2]}", page))
