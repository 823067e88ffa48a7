"""Translate Java's regular expressions, which `subscribePattern` contains, to Python's.

Topic names consist of ASCII characters. A character class is therefore evaluated to a set of ASCII
characters, which supports Java's nested classes and intersections. Syntax that the two languages share is not
changed.
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
    """Compile a Java pattern.

    Raises:
        ValueError, re.error: the pattern is invalid or has no equivalent in Python.
        RecursionError: its groups are nested too deeply.
    """
    return re.compile(_Translator(pattern).translate())


class _Translator:
    """A recursive descent parser of one pattern, which writes Python's syntax."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.position = 0
        self.ignores_case = False

    def translate(self) -> str:
        translated = self._translate_alternatives()
        if self.position < len(self.text):
            raise ValueError(f"unmatched ')' at position {self.position}")
        return translated

    def _translate_alternatives(self) -> str:
        """Translate up to the end of the group or of the pattern."""
        out: list[str] = []
        ignored_case = self.ignores_case
        # In Java, (?i) applies up to the end of the group. Python has flags only for whole groups, so each
        # alternative is enclosed in a group with the flags.
        flag_groups = ""
        while self.position < len(self.text) and self.text[self.position] != ")":
            flags = _FLAGS.match(self.text, self.position)
            if flags and flags[3] == ")":
                self.position = flags.end()
                out.append(self._translate_flags(flags))
                flag_groups += out[-1]
            elif self.text[self.position] == "|":
                self.position += 1
                out.append(")" * flag_groups.count("(") + "|" + flag_groups)
            else:
                out.append(self._translate_atom())
        self.ignores_case = ignored_case
        return "".join(out) + ")" * flag_groups.count("(")

    def _translate_atom(self) -> str:
        char = self.text[self.position]
        if char == "\\":
            return self._translate_escape()
        if char == "[":
            self.position += 1
            return _to_class(self._parse_class())
        if char == "(":
            return self._translate_group()
        if char == "{":
            quantifier = _QUANTIFIER.match(self.text, self.position)
            if not quantifier:
                raise ValueError(f"expected a repetition such as {{2,3}} at position {self.position}")
            self.position = quantifier.end()
            return quantifier[0]
        self.position += 1
        return "\\" + char if char in "}]" else char

    def _translate_group(self) -> str:
        ignored_case = self.ignores_case
        flags = _FLAGS.match(self.text, self.position)
        if flags:
            self.position = flags.end()
            opening = self._translate_flags(flags)
        else:
            named = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>").match(self.text, self.position)
            special = re.compile(r"\(\?(?:[=!>]|<[=!])").match(self.text, self.position)
            if named:
                opening, self.position = f"(?P<{named[1]}>", named.end()
            elif special:
                opening, self.position = special[0], special.end()
            elif self.text.startswith("(?", self.position):
                raise ValueError(f"unknown kind of group at position {self.position}")
            else:
                opening, self.position = "(", self.position + 1
        inner = self._translate_alternatives()
        if self.position >= len(self.text):
            raise ValueError("unclosed group")
        self.position += 1
        self.ignores_case = ignored_case
        return opening + inner + ")"

    def _translate_escape(self) -> str:
        text, start = self.text, self.position
        if text.startswith("\\Q", start):
            end = text.find("\\E", start + 2)
            quoted = text[start + 2 : end if end >= 0 else len(text)]
            self.position = end + 2 if end >= 0 else len(text)
            return re.escape(quoted)
        reference = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>").match(text, start)
        if reference:
            self.position = reference.end()
            return f"(?P={reference[1]})"
        following = text[start + 1 : start + 2]
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
            self.position = start + 2
            return same.get(following, "\\" + following)
        chars = self._parse_escaped_chars()
        return re.escape(next(iter(chars))) if len(chars) == 1 else _to_class(chars)

    def _parse_escaped_chars(self) -> frozenset[str]:
        """Return the characters that an escape matches, inside and outside of classes."""
        text, start = self.text, self.position
        if match := _HEX.match(text, start):
            self.position = match.end()
            return frozenset(chr(int(match[1] or match[2] or match[3], 16)))
        if match := _OCTAL.match(text, start):
            self.position = match.end()
            return frozenset(chr(int(match[1], 8)))
        if match := _PROPERTY.match(text, start):
            self.position = match.end()
            name = (match[2] or match[3]).lower()
            name = name.removeprefix("is").removeprefix("general_category=").removeprefix("gc=")
            if name not in _PROPERTIES:
                raise ValueError(f"unknown property {match[0]}")
            return _PROPERTIES[name] if match[1] == "p" else ASCII - _PROPERTIES[name]
        char = text[start + 1 : start + 2]
        if not char:
            raise ValueError("expected a character after the last backslash")
        self.position = start + 2
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in _LITERALS:
            return frozenset(_LITERALS[char])
        if char.isascii() and char.isalnum():
            raise ValueError(f"unknown escape \\{char}")
        return frozenset(char)

    def _parse_class(self) -> frozenset[str]:
        """Parse a character class after its opening bracket: unions, which && intersects."""
        negated = self.text.startswith("^", self.position)
        self.position += negated
        chars: frozenset[str] = frozenset()
        result: frozenset[str] | None = None
        first = True
        while True:
            if self.position >= len(self.text):
                raise ValueError("unclosed character class")
            if self.text[self.position] == "]" and not first:
                self.position += 1
                break
            if self.text.startswith("&&", self.position):
                self.position += 2
                if chars:  # Java ignores an empty operand
                    result = chars if result is None else result & chars
                chars = frozenset()
            elif self.text[self.position] == "[":
                self.position += 1
                chars |= self._parse_class()
            else:
                chars |= self._add_other_case(self._parse_class_range())
            first = False
        result = chars if result is None else result & chars if chars else result
        return ASCII - result if negated else result

    def _parse_class_range(self) -> frozenset[str]:
        low = self._parse_class_chars()
        following = self.text[self.position + 1 : self.position + 2]
        if len(low) != 1 or not self.text.startswith("-", self.position) or following in ("]", "[", ""):
            return low
        self.position += 1
        high = self._parse_class_chars()
        if len(high) != 1 or min(high) < min(low):
            raise ValueError(f"invalid range in a character class at position {self.position}")
        return frozenset(map(chr, range(ord(min(low)), ord(min(high)) + 1)))

    def _parse_class_chars(self) -> frozenset[str]:
        if self.text.startswith("\\Q", self.position):
            end = self.text.find("\\E", self.position)
            quoted = self.text[self.position + 2 : end if end >= 0 else len(self.text)]
            self.position = end + 2 if end >= 0 else len(self.text)
            return frozenset(quoted)
        if self.text[self.position] == "\\":
            return self._parse_escaped_chars()
        self.position += 1
        return frozenset(self.text[self.position - 1])

    def _add_other_case(self, chars: frozenset[str]) -> frozenset[str]:
        # Called before a class is negated or intersected, so that (?i)[^O] excludes o as well.
        return (
            frozenset(c for char in chars for c in (char.lower(), char.upper()))
            if self.ignores_case
            else chars
        )

    def _translate_flags(self, flags: re.Match[str]) -> str:
        """Open a group with the flags that matter in a topic name. Java's flags d, u and U do not."""
        unknown = set((flags[1] or "") + (flags[2] or "")) - set("idmsuxU")
        if unknown:
            raise ValueError(f"unknown flag {min(unknown)}")
        on = "".join(c for c in dict.fromkeys(flags[1]) if c in "imsx")
        off = "".join(c for c in dict.fromkeys(flags[2] or "") if c in "imsx")
        self.ignores_case = "i" not in off and (self.ignores_case or "i" in on)
        return f"(?{on}{'-' + off if off else ''}:" if on or off else "(?:"


def _to_class(chars: frozenset[str]) -> str:
    if not chars:
        return "(?!)"
    if chars == ASCII:
        return r"[\x00-\x7f]"
    return "[" + "".join(map(re.escape, sorted(chars))) + "]"
