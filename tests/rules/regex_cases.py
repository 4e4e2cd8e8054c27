"""Regular expressions: what each engine would read differently has one meaning."""

from tests.rules.case import line

REGEX_CASES = (
    line("re", "|re", "a.c", ["abc", "xabcx"], ["aBC", "a\nc", None]),
    line("re anchored", "|re", "^a+$", ["aaa"], ["baa", "a\nb"]),
    line("re before a last newline", "|re", "a$", ["a", "a\n"], ["a\r", "a\n\n", "ab"]),
    line("re and other line ends", "|re", "a.b", ["a\rb", "a\u2028b", "a\u0085b"], ["a\nb"]),
    line("re i", "|re|i", "mimi(katz|dogz)", ["MIMIKATZ"], ["mimi"]),
    line("re i beyond ASCII", "|re|i", "ärger", ["ÄRGER"], ["arger"]),
    line("re m", "|re|m", "^b$", ["a\nb\nc", "b"], ["a b", "a\rb"]),
    line("re s", "|re|s", "a.c", ["a\nc"], ["ac"]),
    line("re with flags in it", "|re", "(?i)abc", ["ABC"], ["ab"]),
    line(
        "re classes", "|re", r"[]x-]{2}[^]a-c]\d\w\s", ["]-z1_ ", "xx^9a\t"], ["]-a1_ ", "xx^9-\t"]
    ),
    line("re digits are ASCII", "|re", r"^\d\b", ["1 ", "1"], ["\u0661", "1a"]),
    line(
        "re edge of a word",
        "|re",
        r"\bnet\b",
        ["a net b", "net", "net-x", "énet"],
        ["nets", "inet", "net_"],
    ),
    line("re brace that is none", "|re", "a{,2}x{", ["a{,2}x{"], ["aax"]),
    line("re quoted dots", "|re", r"\.exe\\", [".exe\\"], ["xexe\\"]),
    line("re lazy and counted", "|re", "^a{2,3}?b+?$", ["aab", "aaabb"], ["ab", "aaaab"]),
    line("re hex", "|re", r"\x41\x{1F600}", ["A😀"], ["a😀"]),
    line("re posix class", "|re", "^[[:alpha:]_]+$", ["ab_"], ["a1"]),
    line("re contained", "|re|contains", "b|c", ["abd", "c"], ["ad"]),
    line("re at the beginning", "|re|startswith", "^b", ["bd"], ["abd"]),
    line("re of several, all", "|re|all", ["a", "b"], ["ba"], ["a", "b"]),
)
