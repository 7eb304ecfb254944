"""The native code of collectives among the threads of a process, as LLVM IR.

These are the functions of the table that programs call (`hlo/include/hlo_collectives.h`). A member
of a group publishes its call, waits until all have, does its share (`combine`), and waits until
all have done theirs: from then on nobody reads its operands. A counter for each of the two waits
goes up by the size of the group each time, so that nothing is ever reset. A group has several
meetings, taken in turn, for collectives that start before earlier ones end; where a member comes
to one whose last call it has not ended yet, it ends that one first.

A wait spins, then sleeps for longer and longer, an eighth of the time it has taken so far, up to a
limit that grows with the group; on a busy machine a yield would take longer, since it lets all
others run. Long waits for others to come say so in the state of their device, where `rendezvous`
finds deadlocks, and look whether to go on (`hlo.poll`). One that has to end takes back its arrival,
if it is not too late; if it is, all members are there, and it does its share first. So nobody reads
operands of a call that has ended early.

These functions are LLVM IR, so that no compiler is needed where the package is installed.
"""

from __future__ import annotations

import os
from functools import cache

from hlo.runtime.jit import Machine
from hlo.runtime.pool import PAUSE

# Meetings of a group: collectives that are under way on it at the same time.
MEETINGS = 8

# Offsets in bytes. The state of a device that runs a program: how often it has begun or ended a
# long wait; of the wait, one more than the number of the collective, and the meeting; the error of
# a failed call, and what it is about; turns of a spin loop; then the group of each collective, and
# the place there.
EPOCH, WAITING, MEETING, ERROR, DETAIL, OTHER, SPINS, ENTRIES = 0, 8, 16, 24, 32, 40, 48, 64
ENTRY_BYTES = 16
# A group: how many members, the distance of its meetings, where its members' counts of calls are.
MEMBERS, STRIDE, COUNTS, FIRST = 0, 8, 16, 64
COUNT_BYTES = 64
# A meeting: two counters on cache lines of their own, the calls of the members by place, and for
# each the count that its wait ends at.
ARRIVED, FINISHED, CALLS = 0, 64, 128

# Errors of a call: members in different collectives, what `combine` finds wrong, no group, no such
# devices.
MISMATCHED, FAILED, NO_GROUP, NO_DEVICES = 1, 2, 3, 4
# What stands in an entry in place of a place: results are zeros, and the last two errors.
ZEROS_PLACE, NO_GROUP_PLACE, NO_DEVICES_PLACE = -1, -NO_GROUP, -NO_DEVICES

# Microseconds. The more members sleep, the longer they do: a thousand that wake every millisecond
# keep a few processors from all other work.
_FIRST_SLEEP, _LONGEST_SLEEP, _LONGEST_SLEEP_PER_MEMBER = 10, 1000, 16

_CALL = "{ i64, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64 }"
_OP = (
    "{ i64, ptr, ptr, ptr, i32, i32, i64, i32, i32, i64, ptr, ptr, ptr, i32, i32, i64, ptr, i64, "
    "ptr, ptr, ptr }"
)
_ARRAY = "{ { i32, i32, ptr, ptr }, i64, i64, i64, i64, i64, i32, i32, ptr }"
# A call that has been started is kept as a copy: of the call, with its meeting and its tables.
_KEPT_MEETING, _KEPT_TABLES = 72, 80


def _at(name: str, base: str, offset: int | str) -> str:
    """Return the line that makes an address so many bytes after another."""
    return f"  %{name} = getelementptr i8, ptr {base}, i64 {offset}"


def _word(name: str, base: str, offset: int, type_: str = "i64") -> str:
    """Return the lines that load a word of memory laid out here."""
    return f"{_at(f'{name}.at', base, offset)}\n  %{name} = load {type_}, ptr %{name}.at"


def _field(name: str, struct: str, base: str, number: int, type_: str) -> str:
    """Return the lines that load a field of a struct."""
    return (
        f"  %{name}.at = getelementptr {struct}, ptr {base}, i64 0, i32 {number}\n"
        f"  %{name} = load {type_}, ptr %{name}.at"
    )


_ENTRY = f"""\
{_field("device", _CALL, "%call", 1, "ptr")}
{_field("op", _CALL, "%call", 2, "ptr")}
{_field("number", _OP, "%op", 5, "i32")}
  %index = sext i32 %number to i64
  %skip = mul i64 %index, {ENTRY_BYTES}
{_at("entries", "%device", ENTRIES)}
{_at("entry.at", "%entries", "%skip")}
  %group = load ptr, ptr %entry.at
{_word("place", "%entry.at", 8)}
  %absent = icmp eq ptr %group, null
"""

_IR = f"""
declare ptr @watch_here()
declare i32 @watch_guard(ptr, ptr, ptr)
declare void @watch_jump(ptr)
declare void @hlo.poll()
declare i32 @strcmp(ptr, ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)
DECLARE_PAUSE
DECLARE_REST

define internal void @look(ptr %unused) nounwind {{
  call void @hlo.poll()
  ret void
}}

; Take back an arrival at a meeting, unless all have come; returns whether it was possible.
define internal i1 @withdraw(ptr %counter, i64 %target) nounwind {{
entry:
  br label %try
try:
  %held = load atomic i64, ptr %counter seq_cst, align 8
  %late = icmp sge i64 %held, %target
  br i1 %late, label %no, label %take
take:
  %less = sub i64 %held, 1
  %pair = cmpxchg ptr %counter, i64 %held, i64 %less seq_cst seq_cst
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %yes, label %try
yes:
  ret i1 true
no:
  ret i1 false
}}

; Wait until a counter has reached a value. With a device, which waits for others to come, look from
; time to time whether to go on; %own is where the call is published.
define internal void @await(ptr %counter, i64 %target, i64 %members, i64 %spins, ptr %device,
                            i64 %number, ptr %meeting, ptr %own) nounwind {{
entry:
  %crowd = mul i64 %members, {_LONGEST_SLEEP_PER_MEMBER}
  %crowded = icmp sgt i64 %crowd, {_LONGEST_SLEEP}
  %longest = select i1 %crowded, i64 %crowd, i64 {_LONGEST_SLEEP}
  %shown = add i64 %number, 1
  %comes = icmp ne ptr %device, null
{_at("epoch", "%device", EPOCH)}
{_at("waiting", "%device", WAITING)}
{_at("where", "%device", MEETING)}
  br label %spin
spin:
  %turn = phi i64 [ 0, %entry ], [ %turns, %pause ]
  %now = load atomic i64, ptr %counter seq_cst, align 8
  %over = icmp sge i64 %now, %target
  br i1 %over, label %done, label %again
again:
  %turns = add i64 %turn, 1
  %quick = icmp slt i64 %turn, %spins
  br i1 %quick, label %pause, label %long
pause:
  PAUSE
  br label %spin
long:
  br i1 %comes, label %tell, label %sleep
tell:
  %begun = atomicrmw add ptr %epoch, i64 1 seq_cst
  store atomic ptr %meeting, ptr %where seq_cst, align 8
  store atomic i64 %shown, ptr %waiting seq_cst, align 8
  br label %sleep
sleep:
  %time = phi i64 [ {_FIRST_SLEEP}, %long ], [ {_FIRST_SLEEP}, %tell ], [ %next, %nap ]
  br i1 %comes, label %ask, label %nap
ask:
  %watch = call ptr @watch_here()
  %jumped = call i32 @watch_guard(ptr %watch, ptr @look, ptr null)
  %stop = icmp ne i32 %jumped, 0
  br i1 %stop, label %leave, label %nap
leave:
  %gone = call i1 @withdraw(ptr %counter, i64 %target)
  br i1 %gone, label %jump, label %told
jump:
  store atomic ptr null, ptr %own seq_cst, align 8
  store atomic i64 0, ptr %waiting seq_cst, align 8
  %left = atomicrmw add ptr %epoch, i64 1 seq_cst
  call void @watch_jump(ptr %watch)
  unreachable
nap:
  call void @rest(i64 %time)
  %eighth = lshr i64 %time, 3
  %longer = add i64 %time, %eighth
  %most = icmp sgt i64 %longer, %longest
  %next = select i1 %most, i64 %longest, i64 %longer
  %later = load atomic i64, ptr %counter seq_cst, align 8
  %ended = icmp sge i64 %later, %target
  br i1 %ended, label %told, label %sleep
told:
  br i1 %comes, label %untell, label %done
untell:
  store atomic i64 0, ptr %waiting seq_cst, align 8
  %ending = atomicrmw add ptr %epoch, i64 1 seq_cst
  br label %done
done:
  ret void
}}

; The share of a member: the argument is the call, the calls of all, their number, the place, and
; room for the status.
define internal void @share(ptr %work) nounwind {{
  %call = load ptr, ptr %work
{_word("calls", "%work", 8, "ptr")}
{_word("n", "%work", 16)}
{_word("place", "%work", 24)}
{_at("status", "%work", 32)}
{_field("op", _CALL, "%call", 2, "ptr")}
{_field("combine", _OP, "%op", 19, "ptr")}
  %did = call i32 %combine(ptr %op, ptr %calls, i64 %n, i64 %place)
  store i32 %did, ptr %status
  ret void
}}

; Wait for the others at a meeting, do the share of this member, and wait until all have.
define internal i32 @finish(ptr %call, ptr %device, ptr %group, i64 %place, ptr %meeting)
    nounwind {{
entry:
  %work = alloca [5 x i64]
{_word("n", "%group", MEMBERS)}
{_word("spins", "%device", SPINS)}
{_at("finished", "%meeting", FINISHED)}
{_at("calls", "%meeting", CALLS)}
  %own = getelementptr ptr, ptr %calls, i64 %place
  %targets = getelementptr ptr, ptr %calls, i64 %n
  %target.at = getelementptr i64, ptr %targets, i64 %place
  %target = load i64, ptr %target.at
{_field("op", _CALL, "%call", 2, "ptr")}
{_field("number", _OP, "%op", 5, "i32")}
  %index = sext i32 %number to i64
  call void @await(ptr %meeting, i64 %target, i64 %n, i64 %spins, ptr %device, i64 %index,
                   ptr %meeting, ptr %own)
{_at("error", "%device", ERROR)}
{_at("detail", "%device", DETAIL)}
{_at("other", "%device", OTHER)}
  %first = load atomic ptr, ptr %calls seq_cst, align 8
{_field("model", _CALL, "%first", 2, "ptr")}
{_field("wanted", _OP, "%model", 3, "ptr")}
{_field("model.number", _OP, "%model", 5, "i32")}
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %following, %alike ]
  %some = icmp slt i64 %i, %n
  br i1 %some, label %compare, label %go
compare:
  %member.at = getelementptr ptr, ptr %calls, i64 %i
  %member = load atomic ptr, ptr %member.at seq_cst, align 8
{_field("its", _CALL, "%member", 2, "ptr")}
  %same = icmp eq ptr %its, %model
  br i1 %same, label %alike, label %look
look:
{_field("signature", _OP, "%its", 3, "ptr")}
  %differs = call i32 @strcmp(ptr %wanted, ptr %signature)
  %equal = icmp eq i32 %differs, 0
  br i1 %equal, label %alike, label %mismatch
alike:
  %following = add i64 %i, 1
  br label %check
mismatch:
{_field("its.number", _OP, "%its", 5, "i32")}
  %high = zext i32 %its.number to i64
  %shifted = shl i64 %high, 32
  %low = zext i32 %model.number to i64
  %both = or i64 %shifted, %low
  store i64 {MISMATCHED}, ptr %error
  store i64 %i, ptr %detail
  store i64 %both, ptr %other
  br label %end
go:
  store ptr %call, ptr %work
{_at("work.calls", "%work", 8)}
  store ptr %calls, ptr %work.calls
{_at("work.n", "%work", 16)}
  store i64 %n, ptr %work.n
{_at("work.place", "%work", 24)}
  store i64 %place, ptr %work.place
{_at("work.status", "%work", 32)}
  store i32 0, ptr %work.status
  %watch = call ptr @watch_here()
  %early = call i32 @watch_guard(ptr %watch, ptr @share, ptr %work)
  %did = load i32, ptr %work.status
  %fine = icmp eq i32 %did, 0
  br i1 %fine, label %end, label %failed
failed:
  %what = sext i32 %did to i64
  store i64 {FAILED}, ptr %error
  store i64 %what, ptr %detail
  br label %end
end:
  %status = phi i32 [ 0, %go ], [ %did, %failed ], [ 1, %mismatch ]
  %jumped = phi i32 [ %early, %go ], [ %early, %failed ], [ 0, %mismatch ]
  %counted = atomicrmw add ptr %finished, i64 1 seq_cst
  call void @await(ptr %finished, i64 %target, i64 %n, i64 %spins, ptr null, i64 0,
                   ptr null, ptr null)
  store atomic ptr null, ptr %own seq_cst, align 8
  %stop = icmp ne i32 %jumped, 0
  br i1 %stop, label %jump, label %done
jump:
  %caller = call ptr @watch_here()
  call void @watch_jump(ptr %caller)
  unreachable
done:
  ret i32 %status
}}

; Say that a member has come to the next meeting of its group; returns the meeting.
define internal ptr @publish(ptr %call, ptr %device, ptr %group, i64 %place) nounwind {{
entry:
{_word("n", "%group", MEMBERS)}
{_word("stride", "%group", STRIDE)}
{_word("counts", "%group", COUNTS)}
  %count.skip = mul i64 %place, {COUNT_BYTES}
{_at("all.counts", "%group", "%counts")}
{_at("count.at", "%all.counts", "%count.skip")}
  %count = load i64, ptr %count.at
  %counted = add i64 %count, 1
  store i64 %counted, ptr %count.at
  %round = udiv i64 %count, {MEETINGS}
  %which = urem i64 %count, {MEETINGS}
  %skip = mul i64 %which, %stride
{_at("meetings", "%group", FIRST)}
{_at("meeting", "%meetings", "%skip")}
{_at("calls", "%meeting", CALLS)}
  %own = getelementptr ptr, ptr %calls, i64 %place
  %earlier = load ptr, ptr %own
  %free = icmp eq ptr %earlier, null
  br i1 %free, label %come, label %end
end:
  %did = call i32 @finish(ptr %earlier, ptr %device, ptr %group, i64 %place, ptr %meeting)
  %fine = icmp eq i32 %did, 0
  %known = select i1 %fine, i64 1, i64 2
  %request.at = getelementptr {_CALL}, ptr %earlier, i64 0, i32 5
  %known.ptr = inttoptr i64 %known to ptr
  store ptr %known.ptr, ptr %request.at
  br label %come
come:
  %turns = add i64 %round, 1
  %target = mul i64 %turns, %n
  %targets = getelementptr ptr, ptr %calls, i64 %n
  %target.at = getelementptr i64, ptr %targets, i64 %place
  store i64 %target, ptr %target.at
  store atomic ptr %call, ptr %own seq_cst, align 8
  %came = atomicrmw add ptr %meeting, i64 1 seq_cst
  ret ptr %meeting
}}

; A call on a device that is in no group.
define internal i32 @alone(ptr %call, ptr %device, ptr %op, i64 %place) nounwind {{
entry:
  %zeros = icmp eq i64 %place, {ZEROS_PLACE}
  br i1 %zeros, label %clear, label %fail
fail:
{_at("error", "%device", ERROR)}
  %what = sub i64 0, %place
  store i64 %what, ptr %error
  ret i32 1
clear:
{_field("count", _OP, "%op", 17, "i64")}
{_field("arrays", _OP, "%op", 18, "ptr")}
{_field("results", _CALL, "%call", 4, "ptr")}
  br label %next
next:
  %i = phi i64 [ 0, %clear ], [ %following, %set ]
  %some = icmp slt i64 %i, %count
  br i1 %some, label %set, label %done
set:
  %array = getelementptr {_ARRAY}, ptr %arrays, i64 %i
{_field("width", _ARRAY, "%array", 1, "i64")}
{_field("elements", _ARRAY, "%array", 2, "i64")}
  %size = mul i64 %width, %elements
  %result.at = getelementptr ptr, ptr %results, i64 %i
  %result = load ptr, ptr %result.at
  call void @llvm.memset.p0.i64(ptr %result, i8 0, i64 %size, i1 false)
  %following = add i64 %i, 1
  br label %next
done:
  ret i32 0
}}

define i32 @meeting_run(ptr %call) nounwind {{
entry:
{_ENTRY}
  br i1 %absent, label %nobody, label %meet
nobody:
  %did = call i32 @alone(ptr %call, ptr %device, ptr %op, i64 %place)
  ret i32 %did
meet:
  %meeting = call ptr @publish(ptr %call, ptr %device, ptr %group, i64 %place)
  %met = call i32 @finish(ptr %call, ptr %device, ptr %group, i64 %place, ptr %meeting)
  ret i32 %met
}}

define i32 @meeting_start(ptr %call) nounwind {{
entry:
{_ENTRY}
  br i1 %absent, label %nobody, label %keep
nobody:
  %did = call i32 @alone(ptr %call, ptr %device, ptr %op, i64 %place)
  ret i32 %did
keep:
{_field("inputs", _OP, "%op", 15, "i64")}
{_field("outputs", _OP, "%op", 17, "i64")}
  %in.bytes = mul i64 %inputs, 8
  %out.bytes = mul i64 %outputs, 8
  %tables = add i64 %in.bytes, %out.bytes
  %bytes = add i64 %tables, {_KEPT_TABLES}
  %kept = call ptr @malloc(i64 %bytes)
  %none = icmp eq ptr %kept, null
  br i1 %none, label %at.once, label %copy
at.once:
  %now = call i32 @meeting_run(ptr %call)
  ret i32 %now
copy:
{_field("operands", _CALL, "%call", 3, "ptr")}
{_field("results", _CALL, "%call", 4, "ptr")}
{_at("kept.operands", "%kept", _KEPT_TABLES)}
{_at("kept.results", "%kept.operands", "%in.bytes")}
  call void @llvm.memcpy.p0.p0.i64(ptr %kept, ptr %call, i64 {_KEPT_MEETING}, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %kept.operands, ptr %operands, i64 %in.bytes, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %kept.results, ptr %results, i64 %out.bytes, i1 false)
  %operands.to = getelementptr {_CALL}, ptr %kept, i64 0, i32 3
  store ptr %kept.operands, ptr %operands.to
  %results.to = getelementptr {_CALL}, ptr %kept, i64 0, i32 4
  store ptr %kept.results, ptr %results.to
  %meeting = call ptr @publish(ptr %kept, ptr %device, ptr %group, i64 %place)
{_at("meeting.to", "%kept", _KEPT_MEETING)}
  store ptr %meeting, ptr %meeting.to
  %request.at = getelementptr {_CALL}, ptr %call, i64 0, i32 5
  store ptr %kept, ptr %request.at
  ret i32 0
}}

define i32 @meeting_wait(ptr %call) nounwind {{
entry:
{_field("kept", _CALL, "%call", 5, "ptr")}
  %over = icmp eq ptr %kept, null
  br i1 %over, label %nothing, label %look
nothing:
  ret i32 0
look:
{_ENTRY}
{_field("state", _CALL, "%kept", 5, "ptr")}
  %number.of = ptrtoint ptr %state to i64
  %open = icmp eq i64 %number.of, 0
  br i1 %open, label %meet, label %known
meet:
{_word("meeting", "%kept", _KEPT_MEETING, "ptr")}
  %met = call i32 @finish(ptr %kept, ptr %device, ptr %group, i64 %place, ptr %meeting)
  br label %end
known:
  %less = sub i64 %number.of, 1
  %found = trunc i64 %less to i32
  br label %end
end:
  %status = phi i32 [ %met, %meet ], [ %found, %known ]
  call void @free(ptr %kept)
  store ptr null, ptr %kept.at
  ret i32 %status
}}

; End what a member has started in a group, when its program has ended early. Returns when nobody
; reads its operands any more.
define void @meeting_leave(ptr %group, i64 %place) nounwind {{
entry:
{_word("n", "%group", MEMBERS)}
{_word("stride", "%group", STRIDE)}
{_at("meetings", "%group", FIRST)}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %following, %left ]
  %some = icmp slt i64 %i, {MEETINGS}
  br i1 %some, label %look, label %done
look:
  %skip = mul i64 %i, %stride
{_at("meeting", "%meetings", "%skip")}
{_at("calls", "%meeting", CALLS)}
  %own = getelementptr ptr, ptr %calls, i64 %place
  %call = load ptr, ptr %own
  %none = icmp eq ptr %call, null
  br i1 %none, label %left, label %open
open:
  %targets = getelementptr ptr, ptr %calls, i64 %n
  %target.at = getelementptr i64, ptr %targets, i64 %place
  %target = load i64, ptr %target.at
  %gone = call i1 @withdraw(ptr %meeting, i64 %target)
  br i1 %gone, label %clear, label %late
late:
{_at("finished", "%meeting", FINISHED)}
  %counted = atomicrmw add ptr %finished, i64 1 seq_cst
  call void @await(ptr %finished, i64 %target, i64 %n, i64 0, ptr null, i64 0, ptr null,
                   ptr null)
  br label %clear
clear:
  store atomic ptr null, ptr %own seq_cst, align 8
  call void @free(ptr %call)
  br label %left
left:
  %following = add i64 %i, 1
  br label %next
done:
  ret void
}}
"""

# Lets others have the processor, for some microseconds.
_REST = {
    "posix": ("declare void @usleep(i32)", "usleep", 1),
    "nt": ("declare void @Sleep(i32)", "Sleep", 1000),
}

SYMBOLS = ("meeting_run", "meeting_start", "meeting_wait", "meeting_leave")
# The functions of `hlo.runtime.watch` that they call.
CALLED = ("watch_here", "watch_guard", "watch_jump", "hlo.poll")


@cache
def meeting_code(machine: Machine) -> bytes:
    """Return the object file of these functions."""
    declared, sleep, unit = _REST["posix" if os.name == "posix" else "nt"]
    rest = f"""{declared}
define internal void @rest(i64 %time) nounwind {{
  %whole = udiv i64 %time, {unit}
  %short = trunc i64 %whole to i32
  call void @{sleep}(i32 %short)
  ret void
}}"""
    declare, pause = PAUSE.get(machine.triple.split("-")[0], ("", ""))
    text = _IR.replace("DECLARE_REST", rest)
    return machine.quick_code(text.replace("DECLARE_PAUSE", declare).replace("PAUSE", pause))
