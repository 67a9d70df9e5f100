"""Reads captures with the Python package sbedecoder and compares every field with another decoder's reading.

Arguments: a folder of schemas (Cme.Futures.Mdp3.Sbe.v1.N.xml), then pairs of a capture and a file of JSON lines, one for
each message in order: {"frame": number, "message": {"template", "name", "version", "fields"}}.
Prints one JSON object: messages, fields, by template, and the differences; exit code 1 when there are any. "later" counts
null fields that the other decoder names and the message's version does not have.
"""

import collections
import json
import struct
import sys
from decimal import Decimal

import sbedecoder

LIMIT = 20


def payloads(path):
    """UDP payloads over IPv4 over Ethernet of a classic capture, with the frames' numbers."""
    with open(path, "rb") as file:
        data = file.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at, number = 24, 0
    while at < len(data):
        (length,) = struct.unpack_from(order + "I", data, at + 8)
        frame, number = data[at + 16 : at + 16 + length], number + 1
        at += 16 + length
        kind = 12
        while frame[kind : kind + 2] == b"\x81\x00":
            kind += 4
        if frame[kind : kind + 2] != b"\x08\x00":
            continue
        ip = kind + 2
        if frame[ip + 9] != 17:
            continue
        udp = ip + (frame[ip] & 15) * 4
        (size,) = struct.unpack_from(">H", frame, udp + 4)
        yield number, frame[udp + 8 : udp + size]


def decimal(parts):
    mantissa, exponent = parts.get("mantissa"), parts.get("exponent")
    return None if mantissa is None else Decimal(mantissa).scaleb(int(exponent))


def month(parts):
    """The parts as FIX writes them."""
    year, month, day, week = (parts[name] for name in ("year", "month", "day", "week"))
    known = lambda value, null: value is not None and value != null
    text = f"{year:04}" if known(year, 65535) else ""
    text += f"{month:02}" if known(month, 255) else ""
    text += f"{day:02}" if known(day, 255) else ""
    text += f"w{week}" if known(week, 255) else ""
    return text or None


def theirs(field):
    """A field's value in the form of the other decoder's JSON."""
    kind = type(field).__name__
    if kind == "SetMessageField":
        return field.value.split(", ") if field.value else []
    if kind == "EnumMessageField":
        name = field.enumerant
        if name is not None:
            return name
        raw = field.raw_value
        # A value without a name; nulls among them are the schema's.
        return None if raw in (255, "\0") else raw
    if kind == "CompositeMessageField":
        parts = field.raw_value
        return month(parts) if "year" in parts else decimal(parts)
    value = field.value
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return value.rstrip(" ") if isinstance(value, str) and field.is_string_type else value


class Comparison:
    def __init__(self):
        self.messages = self.fields = self.later = self.unequal = 0
        self.templates = collections.Counter()
        self.differences = []

    def differ(self, where, ours, other):
        self.unequal += 1
        if len(self.differences) < LIMIT:
            self.differences.append({"where": where, "ours": str(ours), "theirs": str(other)})

    def level(self, where, fields, version, ours):
        """Fields of a block or of an entry. `ours` loses what has been compared."""
        for field in fields:
            name = field.original_name
            if field.since_version > version:
                continue
            self.fields += 1
            mine, other = ours.pop(name, "missing"), theirs(field)
            if mine != other:
                self.differ(f"{where}.{name}", repr(mine), repr(other))

    def left(self, where, fields):
        """What the schema of the message's own version does not have: later fields and groups, which must be empty."""
        self.later += len(fields)
        values = sorted(name for name, value in fields.items() if value not in (None, []))
        if values:
            self.differ(where, values, "not in the schema")

    def message(self, where, message, ours):
        self.messages += 1
        header = message.header_fields
        template, version = message.message_id, message.version.value
        self.templates[template] += 1
        if (template, version) != (ours["template"], ours["version"]) or type(message).__name__ != ours["name"]:
            self.differ(where, (ours["template"], ours["name"]), (template, type(message).__name__))
            return
        fields = ours["fields"]
        self.level(where, [f for f in message.fields if f.original_name not in header], version, fields)
        for group in message.groups:
            if group.since_version > version:
                continue
            entries = fields.pop(group.original_name, None)
            if entries is None or len(entries) != group.num_groups:
                self.differ(f"{where}.{group.original_name}", entries and len(entries), group.num_groups)
                continue
            for index, entry in enumerate(group.repeating_groups):
                at = f"{where}.{group.original_name}[{index}]"
                self.level(at, entry.fields, version, entries[index])
                self.left(at, entries[index])
        self.left(where, fields)


HEADER = {"message_size", "blockLength", "templateId", "schemaId", "version", "BlockLength", "TemplateID", "SchemaID", "Version"}


def main(folder, pairs):
    schemas, comparison = {}, Comparison()

    def schema(version):
        if version not in schemas:
            made = sbedecoder.SBESchema(include_message_size_header=True)
            made.parse(f"{folder}/Cme.Futures.Mdp3.Sbe.v1.{version}.xml")
            schemas[version] = made
        return schemas[version]

    for capture, lines in zip(pairs[::2], pairs[1::2]):
        with open(lines, encoding="utf-8") as file:
            ours = (json.loads(line, parse_float=Decimal) for line in file)
            for frame, payload in payloads(capture):
                at = 12
                while at < len(payload):
                    size, _, template, _, version = struct.unpack_from("<HHHHH", payload, at)
                    kind = schema(version).get_message_type(template)
                    mine = next(ours, None)
                    where = f"{capture.rsplit('/', 1)[-1]} frame {frame} byte {at}"
                    if kind is None or mine is None or mine["frame"] != frame:
                        comparison.differ(where, mine, f"template {template} of {size} bytes")
                    else:
                        message = kind()
                        message.header_fields = HEADER
                        message.wrap(payload, at)
                        comparison.message(where, message, mine["message"])
                    at += size
            if next(ours, None) is not None:
                comparison.differ(capture, "more messages", "the end")
    json.dump(
        {
            "messages": comparison.messages,
            "fields": comparison.fields,
            "later": comparison.later,
            "templates": {str(k): v for k, v in sorted(comparison.templates.items())},
            "unequal": comparison.unequal,
            "differences": comparison.differences,
        },
        sys.stdout,
    )
    return 1 if comparison.unequal else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
