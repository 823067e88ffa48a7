"""Java's regular expressions, as `subscribePattern` takes them, turned into Python's.

Character classes are worked out over ASCII, since that is what topic names are made of; this gives Java's
nested classes and intersections without an engine of our own. What the two languages share passes through.
"""

from __future__ import annotations

import re
import string

ASCII = frozenset(map(chr, range(128)))
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset(" \t\n\x0b\f\r")
_ESCAPES = {
    "d": frozenset(string.digits),
    "D": ASCII - frozenset(string.digits),
    "w": _WORD,
    "W": ASCII - _WORD,
    "s": _SPACE,
    "S": ASCII - _SPACE,
    "h": frozenset(" \t"),
    "H": ASCII - frozenset(" \t"),
    "v": frozenset("\n\x0b\f\r"),
    "V": ASCII - frozenset("\n\x0b\f\r"),
}
_PROPERTIES = {
    "lower": frozenset(string.ascii_lowercase),
    "upper": frozenset(string.ascii_uppercase),
    "ascii": ASCII,
    "alpha": frozenset(string.ascii_letters),
    "digit": frozenset(string.digits),
    "alnum": frozenset(string.ascii_letters + string.digits),
    "punct": frozenset(string.punctuation),
    "graph": frozenset(string.ascii_letters + string.digits + string.punctuation),
    "print": frozenset(string.ascii_letters + string.digits + string.punctuation + " "),
    "blank": frozenset(" \t"),
    "cntrl": frozenset(map(chr, range(32))) | {"\x7f"},
    "xdigit": frozenset(string.hexdigits),
    "space": _SPACE,
}
_PROPERTIES |= {
    "l": _PROPERTIES["alpha"],
    "letter": _PROPERTIES["alpha"],
    "alphabetic": _PROPERTIES["alpha"],
    "lu": _PROPERTIES["upper"],
    "uppercase": _PROPERTIES["upper"],
    "ll": _PROPERTIES["lower"],
    "lowercase": _PROPERTIES["lower"],
    "n": _PROPERTIES["digit"],
    "nd": _PROPERTIES["digit"],
    "p": frozenset("!\"#%&'()*,-./:;?@[\\]_{}"),
    "punctuation": frozenset("!\"#%&'()*,-./:;?@[\\]_{}"),
    "s": frozenset("$+<=>^`|~"),
    "latin": _PROPERTIES["alpha"],
    "javalowercase": _PROPERTIES["lower"],
    "javauppercase": _PROPERTIES["upper"],
    "javaletter": _PROPERTIES["alpha"],
    "javadigit": _PROPERTIES["digit"],
}
_LITERALS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_QUANTIFIER = re.compile(r"\{\d+(?:,\d*)?\}")
_HEX = re.compile(r"\\(?:x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))")
_OCTAL = re.compile(r"\\0([0-3]?[0-7]{1,2})")
_PROPERTY = re.compile(r"\\([pP])(?:\{\^?([^}]*)\}|(.))")


def compile_java(pattern: str) -> re.Pattern[str]:
    """Raises ValueError (re.error among them) where it is no pattern, or has no counterpart in Python."""
    return re.compile(_Translator(pattern).whole())


class _Translator:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.ignores_case = False

    def whole(self) -> str:
        translated = self._alternatives()
        if self.at < len(self.text):
            raise ValueError(f"unmatched ')' at {self.at}")
        return translated

    def _alternatives(self) -> str:
        """Up to the end of the group, or of the pattern."""
        out: list[str] = []
        ignored_case = self.ignores_case
        # (?i) holds to the end of the group, which Python can say as a group only: one for each alternative.
        flagged = ""
        while self.at < len(self.text) and self.text[self.at] != ")":
            flags = _FLAGS.match(self.text, self.at)
            if flags and flags[3] == ")":
                self.at = flags.end()
                out.append(self._flag_group(flags))
                flagged += out[-1]
            elif self.text[self.at] == "|":
                self.at += 1
                out.append(")" * flagged.count("(") + "|" + flagged)
            else:
                out.append(self._atom())
        self.ignores_case = ignored_case
        return "".join(out) + ")" * flagged.count("(")

    def _atom(self) -> str:
        char = self.text[self.at]
        if char == "\\":
            return self._escape()
        if char == "[":
            self.at += 1
            return _as_class(self._class())
        if char == "(":
            return self._group()
        if char == "{":
            quantifier = _QUANTIFIER.match(self.text, self.at)
            if not quantifier:
                raise ValueError(f"a repetition such as {{2,3}} was expected at {self.at}")
            self.at = quantifier.end()
            return quantifier[0]
        self.at += 1
        return "\\" + char if char in "}]" else char

    def _group(self) -> str:
        ignored_case = self.ignores_case
        flags = _FLAGS.match(self.text, self.at)
        if flags:
            self.at = flags.end()
            opening = self._flag_group(flags)
        else:
            named = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>").match(self.text, self.at)
            special = re.compile(r"\(\?(?:[=!>]|<[=!])").match(self.text, self.at)
            if named:
                opening, self.at = f"(?P<{named[1]}>", named.end()
            elif special:
                opening, self.at = special[0], special.end()
            elif self.text.startswith("(?", self.at):
                raise ValueError(f"unknown kind of group at {self.at}")
            else:
                opening, self.at = "(", self.at + 1
        inner = self._alternatives()
        if self.at >= len(self.text):
            raise ValueError("a group is not closed")
        self.at += 1
        self.ignores_case = ignored_case
        return opening + inner + ")"

    def _escape(self) -> str:
        text, at = self.text, self.at
        if text.startswith("\\Q", at):
            end = text.find("\\E", at + 2)
            quoted = text[at + 2 : end if end >= 0 else len(text)]
            self.at = end + 2 if end >= 0 else len(text)
            return re.escape(quoted)
        reference = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>").match(text, at)
        if reference:
            self.at = reference.end()
            return f"(?P={reference[1]})"
        following = text[at + 1 : at + 2]
        same = {
            "b": r"\b",
            "B": r"\B",
            "A": r"\A",
            "z": r"\Z",
            "Z": r"(?=\n?\Z)",
            "G": r"\A",
            "R": r"(?:\r\n|[\n-\r])",
        }
        if following in same or following in set("123456789"):
            self.at = at + 2
            return same.get(following, "\\" + following)
        chars = self._escaped_chars()
        return re.escape(next(iter(chars))) if len(chars) == 1 else _as_class(chars)

    def _escaped_chars(self) -> frozenset[str]:
        """The characters that an escape stands for, inside and outside of classes."""
        text, at = self.text, self.at
        if match := _HEX.match(text, at):
            self.at = match.end()
            return frozenset(chr(int(match[1] or match[2] or match[3], 16)))
        if match := _OCTAL.match(text, at):
            self.at = match.end()
            return frozenset(chr(int(match[1], 8)))
        if match := _PROPERTY.match(text, at):
            self.at = match.end()
            name = (match[2] or match[3]).lower()
            name = name.removeprefix("is").removeprefix("general_category=").removeprefix("gc=")
            if name not in _PROPERTIES:
                raise ValueError(f"unknown property {match[0]}")
            return _PROPERTIES[name] if match[1] == "p" else ASCII - _PROPERTIES[name]
        char = text[at + 1 : at + 2]
        if not char:
            raise ValueError("it ends in a single backslash")
        self.at = at + 2
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in _LITERALS:
            return frozenset(_LITERALS[char])
        if char.isascii() and char.isalnum():
            raise ValueError(f"unknown escape \\{char}")
        return frozenset(char)

    def _class(self) -> frozenset[str]:
        """A character class behind its opening bracket: unions of parts, which && intersects."""
        negated = self.text.startswith("^", self.at)
        self.at += negated
        chars: frozenset[str] = frozenset()
        result: frozenset[str] | None = None
        first = True
        while True:
            if self.at >= len(self.text):
                raise ValueError("a character class is not closed")
            if self.text[self.at] == "]" and not first:
                self.at += 1
                break
            if self.text.startswith("&&", self.at):
                self.at += 2
                if chars:  # Java passes over an operand that is not there
                    result = chars if result is None else result & chars
                chars = frozenset()
            elif self.text[self.at] == "[":
                self.at += 1
                chars |= self._class()
            else:
                chars |= self._either_case(self._class_range())
            first = False
        result = chars if result is None else result & chars if chars else result
        return ASCII - result if negated else result

    def _class_range(self) -> frozenset[str]:
        low = self._class_chars()
        following = self.text[self.at + 1 : self.at + 2]
        if len(low) != 1 or not self.text.startswith("-", self.at) or following in ("]", "[", ""):
            return low
        self.at += 1
        high = self._class_chars()
        if len(high) != 1 or min(high) < min(low):
            raise ValueError(f"bad range in a character class at {self.at}")
        return frozenset(map(chr, range(ord(min(low)), ord(min(high)) + 1)))

    def _class_chars(self) -> frozenset[str]:
        if self.text.startswith("\\Q", self.at):
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 2 : end if end >= 0 else len(self.text)]
            self.at = end + 2 if end >= 0 else len(self.text)
            return frozenset(quoted)
        if self.text[self.at] == "\\":
            return self._escaped_chars()
        self.at += 1
        return frozenset(self.text[self.at - 1])

    def _either_case(self, chars: frozenset[str]) -> frozenset[str]:
        # Before a class is negated or intersected, so that [^O] leaves out o as well.
        return (
            frozenset(c for char in chars for c in (char.lower(), char.upper()))
            if self.ignores_case
            else chars
        )

    def _flag_group(self, flags: re.Match[str]) -> str:
        """A group with those of Java's flags that mean something in a topic name; d, u and U do not."""
        unknown = set((flags[1] or "") + (flags[2] or "")) - set("idmsuxU")
        if unknown:
            raise ValueError(f"unknown flag {min(unknown)}")
        on = "".join(c for c in dict.fromkeys(flags[1]) if c in "imsx")
        off = "".join(c for c in dict.fromkeys(flags[2] or "") if c in "imsx")
        self.ignores_case = "i" not in off and (self.ignores_case or "i" in on)
        return f"(?{on}{'-' + off if off else ''}:" if on or off else "(?:"


def _as_class(chars: frozenset[str]) -> str:
    if not chars:
        return "(?!)"
    if chars == ASCII:
        return r"[\x00-\x7f]"
    return "[" + "".join(map(re.escape, sorted(chars))) + "]"
