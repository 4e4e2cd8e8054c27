"""Texts, wildcards and their escapes, and encodings."""

from tests.rules.case import line

CMD16 = "c\x00m\x00d\x00"
DASHES = ("-", "/", "\u2013", "\u2014", "\u2015")

TEXT_CASES = (
    # Texts, wildcards and their escapes.
    line(
        "equal, whatever the case",
        "",
        "WhoAmI",
        ["whoami", "WHOAMI"],
        ["whoami ", "xwhoami", "", None],
    ),
    line(
        "a star is any text",
        "",
        "prog*.exe",
        ["prog.exe", "PROG1.exe", "prog\n.exe"],
        ["prog.exe ", "aprog.exe", None],
    ),
    line(
        "a question mark is one character",
        "",
        "prog?.exe",
        ["progA.exe", "prog?.exe", "prog\n.exe"],
        ["prog.exe", "progAB.exe"],
    ),
    line("an escaped star is a star", "", r"a\*b", ["a*b"], ["axb", r"a\*b", r"a\b"]),
    line("an escaped question mark is one", "", r"a\?b", ["a?b"], ["axb", r"a\?b"]),
    line(
        "a backslash before others is one",
        "",
        r"C:\Windows\x",
        [r"c:\windows\x"],
        [r"C:\\Windows\\x", "C:Windowsx"],
    ),
    line("two backslashes are one", "", r"a\\b", [r"a\b"], [r"a\\b"]),
    line("a backslash before a wildcard", "", r"a\\*", [r"a\b", "a\\"], ["ab", "a*"]),
    line("three escape both", "", r"a\\\*b", [r"a\*b"], [r"a\xb", "a*b"]),
    line("four are two", "", r"a\\\\b", [r"a\\b"], [r"a\b", r"a\\\\b"]),
    line(
        "a dollar and a bracket are plain",
        "",
        "a$(b)[c]{d}.+^|*",
        ["a$(b)[c]{d}.+^|", "A$(B)[C]{D}.+^|x"],
        ["ab"],
    ),
    line("many wildcards", "", "*a*b?c*", ["xaxbxc", "abxcx"], ["abc", "axc", "bxca"]),
    line(
        "what a wildcard passes over may repeat",
        "",
        "a*ab",
        ["aab", "axaab", "aaab"],
        ["ab", "aabx"],
    ),
    line("empty is empty", "", "", [""], [" ", "a", None]),
    line("a star alone is any value", "", "*", ["", "a", "a\nb"], [None]),
    line("letters beyond ASCII", "", "ÄRGER?", ["ärgerÖ", "Ärger😀"], ["arger1", "ärger"]),
    line("several values are alternatives", "", ["a", "b"], ["A", "b"], ["ab", None]),
    line("a boolean", "", True, ["true", "True"], ["false", "1", None]),
    line("a number in a text", "", 4688, ["4688"], ["04688", "4688.0", None]),
    # contains, startswith, endswith, all, cased.
    line("contains", "|contains", "-enc", ["x -ENC y", "-enc"], ["-en c", None]),
    line("contains with a wildcard", "|contains", "a*c", ["xabcx", "ac"], ["ca"]),
    line("contains nothing", "|contains", "", ["", "x"], [None]),
    line("startswith", "|startswith", "adm", ["ADMIN", "adm"], ["xadm", None]),
    line("startswith an escaped star", "|startswith", r"\*x", ["*xy"], ["axy"]),
    line(
        "endswith",
        "|endswith",
        r"\cmd.exe",
        [r"C:\CMD.exe", r"\cmd.exe"],
        ["cmd.exe", r"\cmd.exe "],
    ),
    line("contains all", "|contains|all", ["-a", "-b"], ["x -B -a"], ["-a", "-b"]),
    line("contains any", "|contains", ["-a", "-b"], ["-a", "-B"], ["-c"]),
    line("cased", "|cased", "WhoAmI", ["WhoAmI"], ["whoami"]),
    line("contains cased", "|contains|cased", "Ami", ["WhoAmiX"], ["whoami", "AMI"]),
    line("a wildcard cased", "|cased", "W*i", ["Whoami"], ["whoamI", "whoami"]),
    line("neq", "|neq", "a", ["b", "", None], ["a", "A"]),
    line("neq of several", "|neq", ["a", "b"], ["c", None], ["a", "B"]),
    # Encodings.
    line("base64", "|base64", "foobar", ["Zm9vYmFy", "zm9vymfy"], ["foobar"]),
    line("base64 somewhere", "|base64|contains", "foobar", ["x Zm9vYmFy y"], ["foobar"]),
    line(
        "base64offset",
        "|base64offset|contains",
        "/bin/bash",
        ["L2Jpbi9iYXNo", "eC9iaW4vYmFzaA==", "eHgvYmluL2Jhc2g="],
        ["/bin/bash"],
    ),
    line("wide", "|wide", "cmd", [CMD16], ["cmd"]),
    line(
        "wide and base64",
        "|wide|base64offset|contains",
        "cmd",
        ["YwBtAGQA", "eGMAbQBkAA=="],
        ["Y21k"],
    ),
    line("utf16be", "|utf16be", "cmd", ["\x00c\x00m\x00d"], [CMD16]),
    line("utf16", "|utf16|base64|contains", "cmd", ["//5jAG0AZAA="], ["YwBtAGQA"]),
    line(
        "windash", "|windash|contains", " -f", [f"x {dash}F y" for dash in DASHES], ["x f", "x-f"]
    ),
    line(
        "windash all", "|contains|windash|all", ["-f", "-g"], ["/f -g", "-f \u2013g"], ["-f", "/g"]
    ),
)
