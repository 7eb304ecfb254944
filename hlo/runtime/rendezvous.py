"""Collectives among the threads of a process: groups in shared memory, and who waits where.

`hlo.runtime.meeting` has the native functions, and the layout of their memory.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence

from hlo.errors import HloError
from hlo.runtime import meeting
from hlo.runtime.collectives import Collective
from hlo.runtime.jit import NativeCode
from hlo.runtime.pool import default_threads

_WORD = 8
_LINE = 64
# Turns of a spin loop before a member sleeps, where there is a processor for each device; else it
# would take one from those it waits for.
_SPINS = 300


class Meetings:
    """The native functions of an object file that `meeting_code` made, loaded into this process."""

    def __init__(self, code: bytes, called: Mapping[str, int]) -> None:
        native = NativeCode(
            [code], *meeting.SYMBOLS, called={name: called[name] for name in meeting.CALLED}
        )
        self._native = native
        self.addresses = native.addresses
        leave = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self.leave = leave(native.addresses["meeting_leave"])


class _Memory:
    """Zeroed words at an address that is a multiple of a cache line."""

    def __init__(self, size_bytes: int) -> None:
        self._raw = (ctypes.c_char * (size_bytes + _LINE))()
        start = ctypes.addressof(self._raw)
        self.address = start + -start % _LINE
        self.words = (ctypes.c_int64 * (size_bytes // _WORD)).from_address(self.address)


class _Group:
    """The meetings of the members of a group, for one channel."""

    def __init__(self, devices: tuple[int, ...]) -> None:
        self.devices = devices
        count = len(devices)
        stride = meeting.CALLS + 2 * _WORD * count
        stride += -stride % _LINE
        counts = meeting.FIRST + meeting.MEETINGS * stride
        self.memory = _Memory(counts + meeting.COUNT_BYTES * count)
        words = self.memory.words
        words[meeting.MEMBERS // _WORD] = count
        words[meeting.STRIDE // _WORD] = stride
        words[meeting.COUNTS // _WORD] = counts

    def missing(self, place_of_meeting: int) -> set[int]:
        """Return the members that have not come to the meeting at an address."""
        calls = (ctypes.c_int64 * len(self.devices)).from_address(place_of_meeting + meeting.CALLS)
        return {d for d, call in zip(self.devices, calls, strict=True) if not call}


class _Member:
    """A program on a device: its state, and the groups of its collectives."""

    def __init__(
        self, meetings: Meetings, device: int, collectives: Sequence[Collective],
        groups: Sequence[tuple[_Group | None, int]], spins: int,
    ) -> None:  # fmt: skip
        self.device, self.collectives, self.groups = device, collectives, groups
        size = meeting.ENTRIES + meeting.ENTRY_BYTES * len(collectives)
        self.state = _Memory(size + -size % _LINE)
        words = self.state.words
        words[meeting.SPINS // _WORD] = spins
        for n, (group, place) in enumerate(groups):
            at = (meeting.ENTRIES + n * meeting.ENTRY_BYTES) // _WORD
            words[at] = 0 if group is None else group.memory.address
            words[at + 1] = place
        self._table = (ctypes.c_int64 * 5)(
            5 * _WORD, self.state.address,
            *(meetings.addresses[f"meeting_{name}"] for name in ("run", "start", "wait")),
        )  # fmt: skip
        self.address = ctypes.addressof(self._table)

    def word(self, offset: int) -> int:
        return int(self.state.words[offset // _WORD])


class Rendezvous:
    """The transport of devices that are threads of this process.

    count: how many devices run.
    """

    def __init__(self, meetings: Meetings, count: int) -> None:
        self._meetings = meetings
        self._count = count
        self._lock = threading.Lock()
        self._groups: dict[tuple[int | None, tuple[int, ...]], _Group] = {}
        self._members: dict[int, _Member] = {}
        self._spins = _SPINS if count <= default_threads() else 0

    def table(self, device: int, collectives: Sequence[Collective]) -> int:
        """Return the address of the table of a program on a device."""
        with self._lock:
            member = self._members.get(device)
            if member is None or member.collectives is not collectives:
                groups = [self._group(device, c) for c in collectives]
                member = _Member(self._meetings, device, collectives, groups, self._spins)
                self._members[device] = member
            return member.address

    def _group(self, device: int, collective: Collective) -> tuple[_Group | None, int]:
        """Return the group of a device in a collective and its place, or None and an error."""
        devices = next((g for g in collective.groups if device in g), None)
        if devices is None and collective.groups:
            is_zero = collective.is_partial
            return None, meeting.ZEROS_PLACE if is_zero else meeting.NO_GROUP_PLACE
        if devices is None or max(devices) >= self._count:
            return None, meeting.NO_DEVICES_PLACE
        key = collective.channel_id, devices
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(devices)
        return group, devices.index(device)

    # --- errors ---------------------------------------------------------------------------------

    def fail(self, device: int, collective: Collective) -> None:
        """Raise the error of a call that has failed, unless that is for want of devices."""
        member = self._members[device]
        error, detail = member.word(meeting.ERROR), member.word(meeting.DETAIL)
        if error == meeting.MISMATCHED:
            raise self._mismatched(member, collective, detail)
        if error == meeting.FAILED:
            code, message = collective.errors[detail - 1]
            raise HloError.at(code, f"{collective.name}: {collective.opcode}: {message}")
        if error == meeting.NO_GROUP:
            raise HloError.at(
                "bad-replica-groups", f"{collective.name}: {collective.opcode}: device {device} is "
                "in no replica group",
            )  # fmt: skip

    def _mismatched(self, member: _Member, collective: Collective, place: int) -> HloError:
        """Return the error of members in different collectives: the first, and one at a place."""
        group, _ = member.groups[member.collectives.index(collective)]
        assert group is not None
        numbers = divmod(member.word(meeting.OTHER), 1 << 32)
        devices = group.devices[0], group.devices[place]
        first, other = (
            self._members[d].collectives[n] for d, n in zip(devices, numbers[::-1], strict=True)
        )
        return HloError.at(
            "mismatched-collectives",
            f"{collective.name}: devices {devices[0]} and {devices[1]} meet in different "
            f"collectives: {first} of {first.operands}, {other} of {other.operands}",
        )

    def leave(self, device: int) -> None:
        """End what a device has started. When it returns, nobody reads its memory."""
        member = self._members.get(device)
        if member is not None:
            for group, place in {g: (g, p) for g, p in member.groups if g is not None}.values():
                self._meetings.leave(group.memory.address, place)

    # --- who waits ------------------------------------------------------------------------------

    def waits(self) -> Mapping[int, tuple[str, set[int]]] | None:
        """Return the devices that have waited for long, each with where and for which others.

        None where devices have begun or ended to wait meanwhile, so that there is no telling.
        """
        with self._lock:
            members = dict(self._members)
        before = [m.word(meeting.EPOCH) for m in members.values()]
        found = {}
        for device, member in members.items():
            number, at = member.word(meeting.WAITING), member.word(meeting.MEETING)
            group = member.groups[number - 1][0] if number else None
            if group is not None:
                found[device] = str(member.collectives[number - 1]), group.missing(at)
        after = [m.word(meeting.EPOCH) for m in members.values()]
        return found if before == after else None


_loaded: dict[bytes, Meetings] = {}
_lock = threading.Lock()


def meetings(code: bytes, called: Mapping[str, int]) -> Meetings:
    """Return the functions of an object file of `meeting_code`, loaded once.

    called: the addresses of what they call.
    """
    with _lock:
        if code not in _loaded:
            _loaded[code] = Meetings(code, called)
        return _loaded[code]
