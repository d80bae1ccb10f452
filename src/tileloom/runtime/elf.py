"""A small linker: ELF object files, as LLVM writes them, into executable memory of this process.

Loading LLVM to load a cached kernel would cost more than everything else in a warm start. Handles
64-bit little-endian relocatable files for x86-64 and AArch64 in position-independent code with the
small code model; see the psABI documents of both for the relocations.

All sections that need memory lie in one mapping: code, then the stubs through which far functions
are reached, then (on pages of their own, writable) constants, data and the table of far addresses.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..base.errors import InternalError

_SYMTAB, _RELA, _NOBITS, _REL = 2, 4, 8, 9
_ALLOC, _EXEC, _THREAD_LOCAL = 0x2, 0x4, 0x400
_X86_64, _AARCH64 = 62, 183
_STUB = 16
_PAGE = mmap.PAGESIZE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class LinkError(InternalError):
    """An object file that this linker does not handle."""


@dataclass(slots=True)
class _Section:
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    address: int = 0  # where it lies in memory; 0: nowhere


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int
    is_global: bool


class LoadedObject:
    """Machine code in memory; unmapped when the last reference goes.

    Nothing here has a finaliser: the collector would run it before others in the same cycle of
    garbage, which may call the code.
    """

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int]) -> None:
        self._memory = memory
        self._addresses = addresses

    @property
    def names(self) -> frozenset[str]:
        """The global symbols that the object defines."""
        return frozenset(self._addresses)

    def address(self, name: str) -> int:
        """The address of a function that the object defines."""
        try:
            return self._addresses[name]
        except KeyError:
            raise InternalError(f"the object does not define {name}") from None

    def find(self, name: str) -> int:
        """The address of a function; 0 if the object does not define it."""
        return self._addresses.get(name, 0)


def load_object(data: bytes, symbols: Mapping[str, int] | None = None) -> LoadedObject:
    """Link an object file against `symbols`, then the C and mathematics libraries, and load it.

    Raises:
        LinkError: when the file is not one of ours, or uses what is nowhere to be found.
    """
    try:
        return _Linker(data, symbols or {}).link()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise LinkError(f"a broken object file: {error}") from None


def checked_object(data: bytes) -> bytes:
    """The bytes of an object file.

    Raises:
        LinkError: for bytes that are none.
    """
    try:
        if any(symbol.is_global and symbol.section for symbol in _Linker(data, {}).symbols):
            return data
    except (struct.error, IndexError, ValueError) as error:
        raise LinkError(f"a broken object file: {error}") from None
    raise LinkError("an object file without functions")


class _Linker:
    def __init__(self, data: bytes, symbols: Mapping[str, int]) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
            raise LinkError("not an ELF file of 64 bits, little-endian")
        self.data = data
        self.given = symbols
        self.machine = struct.unpack_from("<H", data, 18)[0]
        self.sections = self._read_sections()
        self.symbols = self._read_symbols()
        self.memory = bytearray()
        self.base = 0
        self.stub_at: dict[int, int] = {}  # far address -> its stub's
        self.slot_at: dict[int, int] = {}  # address -> that of its slot in the table
        self.next_stub = self.next_slot = 0

    def _read_sections(self) -> list[_Section]:
        table = struct.unpack_from("<Q", self.data, 40)[0]
        size, count = struct.unpack_from("<HH", self.data, 58)
        found = []
        for number in range(count):
            name, kind, flags, _, offset, length, link, info, alignment, _ = struct.unpack_from(
                "<IIQQQQIIQQ", self.data, table + number * size
            )
            found.append(_Section(name, kind, flags, offset, length, link, info, alignment))
        return found

    def _read_symbols(self) -> list[_Symbol]:
        for section in self.sections:
            if section.kind == _SYMTAB:
                names = self.sections[section.link].offset
                places = range(section.offset, section.offset + section.size, 24)
                return [self._read_symbol(place, names) for place in places]
        return []

    def _read_symbol(self, place: int, names: int) -> _Symbol:
        name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.data, place)
        end = self.data.index(0, names + name)
        return _Symbol(self.data[names + name : end].decode(), section, value, info >> 4 != 0)

    def link(self) -> LoadedObject:
        """Lay out, copy, relocate, protect."""
        code, total = self._lay_out()
        try:
            mapped = mmap.mmap(-1, total, mmap.MAP_PRIVATE)
        except OSError:
            raise MemoryError("no memory for machine code") from None
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        self.memory = bytearray(total)
        for section in self._resident():
            section.address += self.base
            if section.kind != _NOBITS:
                at = section.address - self.base
                self.memory[at : at + section.size] = self._bytes_of(section)
        self.next_stub += self.base
        self.next_slot += self.base
        for section in self.sections:
            if section.kind in (_RELA, _REL):
                self._relocate_section(section)
        mapped[:] = bytes(self.memory)
        if code and _libc.mprotect(self.base, code, 5):
            raise LinkError("the system does not let us execute generated code")
        return LoadedObject(mapped, self._addresses())

    def _addresses(self) -> dict[str, int]:
        """Where the symbols are that other objects see."""
        return {
            symbol.name: self.sections[symbol.section].address + symbol.value
            for symbol in self.symbols
            if symbol.is_global and 0 < symbol.section < 0xFF00
        }

    def _bytes_of(self, section: _Section) -> bytes:
        found = self.data[section.offset : section.offset + section.size]
        if len(found) != section.size:
            raise LinkError("a broken object file: it is cut short")
        return found

    def _resident(self) -> list[_Section]:
        """The sections that need memory: not those for unwinding, since nothing throws."""
        return [s for s in self.sections if s.flags & _ALLOC and not self._is_unneeded(s)]

    def _is_unneeded(self, section: _Section) -> bool:
        start = self.sections[struct.unpack_from("<H", self.data, 62)[0]].offset + section.name
        name = self.data[start : self.data.index(0, start)]
        return name.startswith((b".eh_frame", b".note"))

    def _lay_out(self) -> tuple[int, int]:
        """Give every section its place; the sizes of the executable part and of all."""
        references = sum(s.size // 24 for s in self.sections if s.kind == _RELA)
        at = 0
        for executable in (True, False):
            for section in self._resident():
                if section.flags & _THREAD_LOCAL:
                    raise LinkError("thread-local variables are not supported")
                if bool(section.flags & _EXEC) == executable:
                    at = _round_up(at, max(1, section.alignment))
                    section.address = at
                    at += section.size
            if executable:
                self.next_stub = _round_up(at, _STUB)
                code = at = _round_up(self.next_stub + references * _STUB, _PAGE)
        self.next_slot = _round_up(at, 8)
        return code, _round_up(self.next_slot + references * 8, _PAGE) or _PAGE

    def _relocate_section(self, relocations: _Section) -> None:
        target = self.sections[relocations.info]
        if target.address == 0:
            return  # of a section that is not in memory
        if relocations.kind == _REL:
            raise LinkError("relocations without addends are not supported")
        relocate = {_X86_64: self._relocate_x86, _AARCH64: self._relocate_arm}.get(self.machine)
        if relocate is None:
            raise LinkError(f"objects for machine {self.machine} are not supported")
        for place in range(relocations.offset, relocations.offset + relocations.size, 24):
            offset, info, addend = struct.unpack_from("<QQq", self.data, place)
            relocate(info & 0xFFFFFFFF, target.address + offset, self._value(info >> 32), addend)

    def _value(self, number: int) -> int:
        """A symbol's address."""
        symbol = self.symbols[number]
        if symbol.section == 0:
            return self.given.get(symbol.name) or _in_libraries(symbol.name)
        if symbol.section >= 0xFF00:
            raise LinkError(f"symbol {symbol.name} lies in no section")
        return self.sections[symbol.section].address + symbol.value

    def _relocate_x86(self, kind: int, place: int, value: int, addend: int) -> None:
        if kind == 1:  # R_X86_64_64
            self._put("<Q", place, (value + addend) & (2**64 - 1))
        elif kind == 24:  # PC64
            self._put("<q", place, value + addend - place)
        elif kind in (2, 4):  # PC32, PLT32
            near = self._near(value, place, 1 << 31) if kind == 4 else value
            self._put("<i", place, near + addend - place)
        elif kind in (9, 41, 42):  # GOTPCREL and its relaxable forms
            self._put("<i", place, self._slot(value) + addend - place)
        else:
            raise LinkError(f"x86-64 relocation {kind} is not supported")

    def _relocate_arm(self, kind: int, place: int, value: int, addend: int) -> None:
        target = value + addend
        if kind == 257:  # R_AARCH64_ABS64
            self._put("<Q", place, target & (2**64 - 1))
        elif kind == 260:  # PREL64
            self._put("<q", place, target - place)
        elif kind == 261:  # PREL32
            self._put("<i", place, target - place)
        elif kind in (282, 283):  # JUMP26, CALL26
            distance = self._near(target, place, 1 << 27) - place
            self._patch(place, 0x03FFFFFF, distance >> 2)
        elif kind in (275, 311):  # ADR_PREL_PG_HI21, ADR_GOT_PAGE
            page = (self._slot(value) if kind == 311 else target) >> 12
            distance = page - (place >> 12)
            self._patch(place, 0x60FFFFE0, (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5)
        elif kind == 312:  # LD64_GOT_LO12_NC
            self._patch(place, 0x003FFC00, (self._slot(value) & 0xFFF) >> 3 << 10)
        elif kind in _ARM_LOW_BITS:
            scale = _ARM_LOW_BITS[kind]
            self._patch(place, 0x003FFC00, (target & 0xFFF) >> scale << 10)
        else:
            raise LinkError(f"AArch64 relocation {kind} is not supported")

    def _put(self, form: str, place: int, value: int) -> None:
        try:
            struct.pack_into(form, self.memory, place - self.base, value)
        except struct.error:
            raise LinkError("an address is out of reach of the code that uses it") from None

    def _patch(self, place: int, mask: int, bits: int) -> None:
        """Set the bits of an instruction that `mask` selects."""
        at = place - self.base
        old = struct.unpack_from("<I", self.memory, at)[0]
        struct.pack_into("<I", self.memory, at, (old & ~mask & 0xFFFFFFFF) | (bits & mask))

    def _near(self, address: int, place: int, reach: int) -> int:
        """A function's address, or that of a stub that jumps to it when it is out of reach."""
        if abs(address - place) < reach - 64:
            return address
        if address not in self.stub_at:
            if self.machine == _X86_64:  # jmp [rip]
                jump = b"\xff\x25\0\0\0\0" + struct.pack("<Q", address) + b"\xcc\xcc"
            else:  # ldr x16, 8; br x16
                jump = struct.pack("<IIQ", 0x58000050, 0xD61F0200, address)
            at = self.next_stub - self.base
            self.memory[at : at + _STUB] = jump
            self.stub_at[address] = self.next_stub
            self.next_stub += _STUB
        return self.stub_at[address]

    def _slot(self, address: int) -> int:
        """Where in the table of far addresses this one stands."""
        if address not in self.slot_at:
            self._put("<Q", self.next_slot, address)
            self.slot_at[address] = self.next_slot
            self.next_slot += 8
        return self.slot_at[address]


# ADD_ABS_LO12_NC and LDST{8,16,32,64,128}_ABS_LO12_NC: by how much the low 12 bits are scaled.
_ARM_LOW_BITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    found = [ctypes.CDLL(None)]
    for name in ("libm.so.6", "libgcc_s.so.1", "libpthread.so.0"):
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return tuple(found)


@cache
def _in_libraries(name: str) -> int:
    """The address of a function of the process itself, the C or the mathematics library."""
    for library in _libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise LinkError(f"compiled code uses {name}, which is nowhere to be found")
