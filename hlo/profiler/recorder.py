"""What a profiled program calls: functions that add up time, in LLVM IR, and their memory.

The time of an entry function is divided into sections. One is current at any time; to change it
reads the counter once and adds the time since the last reading to the section that ends, so that
all time is in some section.

In a loop that is not every iteration: reading the counter may take as long as a kernel. An
iteration that is timed tells how many to leave out next, so that the readings take a hundredth of
the time, or less. While none is timed all of it belongs to a second section of the loop, that of
the rest, and code in the body tests `FLAG` instead of calling. The words of a loop say how many
iterations there were.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.runtime.ticks import ticks_ir

# Words of a record. FLAG: the body that runs is timed. LAST: the last reading. EVENT: the number of
# events so far; MOST_EVENTS: how many are kept, at the address that follows.
FLAG, LAST, CURRENT, READINGS, EVENT, MOST_EVENTS, EVENTS_AT, BEGUN, TOTAL = range(9)
# Threads that have worked on shares: its id and its time each, in an open-addressing table.
THREADS = 16
MOST_THREADS = 64
# The same of shares as of events. All threads write here: it is on a cache line of its own.
_SHARES = THREADS + 2 * MOST_THREADS + 8
SHARE, MOST_SHARES, SHARES_AT = range(_SHARES, _SHARES + 3)
# A section that belongs to nothing.
SCRAPS = SHARE + 16
HEADER_WORDS = SCRAPS + 3
# Words of a section, of which a loop has two: its own, and that of the rest. TIME: its ticks. BUSY:
# those of threads on shares. VISITS: how often it became the current one.
TIME, BUSY, VISITS = range(3)
SECTION_WORDS = 3
# Words of a loop. COUNTDOWN: iterations up to the next that is timed. ITERATIONS: those up to that
# one. OUTER: whether what is around it is timed, AROUND: `FLAG` there. STARTED and READ: the time
# and the number of readings when the present iteration began.
COUNTDOWN, ITERATIONS, OUTER, AROUND, STARTED, READ = range(6)
LOOP_WORDS = 6
# Words of an event: the section that begins, and when; for an iteration that is timed, the section
# is marked. Words of a share: the section, the thread's place in the table, begin, and end.
EVENT_WORDS, SHARE_WORDS = 2, 4
ITERATION_MARK = 1 << 40
RECORD = "hlo.profile.record"
# A countdown that does not end, within which so many iterations are counted as done.
_NEVER = 1 << 60
# What a reading may cost of the time between two, in ticks times the number of iterations to leave
# out: forty ticks are half a hundredth of this, as code that seldom runs is slow besides.
_PRICE = 8000
_MOST_LEFT_OUT = 4096


def _word(name: str, number: int, base: str = f"@{RECORD}") -> str:
    return f"  %{name}.at = getelementptr i64, ptr {base}, i64 {number}"


def _words(base: str, **numbers: int) -> str:
    return "\n".join(_word(name, number, base) for name, number in numbers.items())


def _function(head: str, lines: str) -> str:
    return f"define {head} nounwind {{\n{lines}\n}}\n"


# Adds the time since the last reading to the current section.
_ACCOUNT = _function(
    "internal void @account(i64 %now) alwaysinline",
    f"""{_words(f"@{RECORD}", last=LAST, current=CURRENT, readings=READINGS)}
  %last = load i64, ptr %last.at
  %section = load i64, ptr %current.at
  %time.at = getelementptr i64, ptr @{RECORD}, i64 %section
  %time = load i64, ptr %time.at
  %passed = sub i64 %now, %last
  %sum = add i64 %time, %passed
  store i64 %sum, ptr %time.at
  store i64 %now, ptr %last.at
  %readings = load i64, ptr %readings.at
  %more = add i64 %readings, 1
  store i64 %more, ptr %readings.at
  ret void""",
)

# Makes a section the current one, with an event.
_BEGIN_SECTION = _function(
    "internal void @begin_section(i64 %section, i64 %what, i64 %now) alwaysinline",
    f"""entry:
{_words(f"@{RECORD}", current=CURRENT, event=EVENT, most=MOST_EVENTS, events=EVENTS_AT)}
  store i64 %section, ptr %current.at
  %section.at = getelementptr i64, ptr @{RECORD}, i64 %section
{_words("%section.at", visits=VISITS)}
  %visits = load i64, ptr %visits.at
  %visits.more = add i64 %visits, 1
  store i64 %visits.more, ptr %visits.at
  %event = load i64, ptr %event.at
  %next = add i64 %event, 1
  store i64 %next, ptr %event.at
  %most = load i64, ptr %most.at
  %fits = icmp slt i64 %event, %most
  br i1 %fits, label %keep, label %done
keep:
  %events = load ptr, ptr %events.at
  %place = mul i64 %event, {EVENT_WORDS}
  %what.at = getelementptr i64, ptr %events, i64 %place
  %time.at = getelementptr i64, ptr %what.at, i64 1
  store i64 %what, ptr %what.at
  store i64 %now, ptr %time.at
  br label %done
done:
  ret void""",
)

_SWITCH = _function(
    "void @hlo.profile.switch(i64 %section)",
    """  %now = call i64 @ticks()
  call void @account(i64 %now)
  call void @begin_section(i64 %section, i64 %section, i64 %now)
  ret void""",
)

# `FLAG` has been set by the caller of the program.
_BEGIN = _function(
    "void @hlo.profile.begin(i64 %section)",
    f"""{_words(f"@{RECORD}", last=LAST, begun=BEGUN)}
  %now = call i64 @ticks()
  store i64 %now, ptr %last.at
  store i64 %now, ptr %begun.at
  call void @begin_section(i64 %section, i64 %section, i64 %now)
  ret void""",
)

_END = _function(
    "void @hlo.profile.end()",
    f"""{_words(f"@{RECORD}", begun=BEGUN, total=TOTAL)}
  %now = call i64 @ticks()
  call void @account(i64 %now)
  call void @begin_section(i64 0, i64 0, i64 %now)
  %begun = load i64, ptr %begun.at
  %passed = sub i64 %now, %begun
  store i64 %passed, ptr %total.at
  ret void""",
)

# How many iterations to leave out after one that took so long, with so many readings.
_LEFT_OUT = _function(
    "internal i64 @left_out(ptr %loop, i64 %now)",
    f"""{_words("%loop", started=STARTED, read=READ)}
{_word("readings", READINGS)}
  %started = load i64, ptr %started.at
  %before = load i64, ptr %read.at
  %readings = load i64, ptr %readings.at
  %passed = sub i64 %now, %started
  %none = icmp slt i64 %passed, 1
  %time = select i1 %none, i64 1, i64 %passed
  %count = sub i64 %readings, %before
  %price = mul i64 %count, {_PRICE}
  %found = sdiv i64 %price, %time
  %many = icmp sgt i64 %found, {_MOST_LEFT_OUT}
  %result = select i1 %many, i64 {_MOST_LEFT_OUT}, i64 %found
  ret i64 %result""",
)

# Leaves iterations out, if any: returns how many.
_REST = _function(
    "internal i64 @rest(ptr %loop, i64 %now)",
    f"""entry:
{_words("%loop", countdown=COUNTDOWN, iterations=ITERATIONS)}
  %left = call i64 @left_out(ptr %loop, i64 %now)
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %rest, label %done
rest:
  store i64 %left, ptr %countdown.at
  %iterations = load i64, ptr %iterations.at
  %sum = add i64 %iterations, %left
  store i64 %sum, ptr %iterations.at
  br label %done
done:
  ret i64 %left""",
)

# When the countdown of a loop has ended, at the start of an iteration.
_TURN = _function(
    "void @hlo.profile.turn(i64 %at, i64 %section)",
    f"""entry:
  %loop = getelementptr i64, ptr @{RECORD}, i64 %at
{_words(f"@{RECORD}", flag=FLAG, readings=READINGS)}
{_words("%loop", countdown=COUNTDOWN, iterations=ITERATIONS, outer=OUTER)}
{_words("%loop", started=STARTED, read=READ)}
  %outer = load i64, ptr %outer.at
  %is.outer = icmp ne i64 %outer, 0
  br i1 %is.outer, label %look, label %skip
skip:
  store i64 {_NEVER}, ptr %countdown.at
  %so.far = load i64, ptr %iterations.at
  %ever = add i64 %so.far, {_NEVER}
  store i64 %ever, ptr %iterations.at
  ret void
look:
  %now = call i64 @ticks()
  %flag = load i64, ptr %flag.at
  %was = icmp ne i64 %flag, 0
  call void @account(i64 %now)
  br i1 %was, label %ended, label %time
ended:
  %left = call i64 @rest(ptr %loop, i64 %now)
  %rests = icmp sgt i64 %left, 0
  br i1 %rests, label %rest, label %time
rest:
  store i64 0, ptr %flag.at
  %others = add i64 %section, {SECTION_WORDS}
  call void @begin_section(i64 %others, i64 %others, i64 %now)
  ret void
time:
  store i64 1, ptr %flag.at
  %mark = or i64 %section, {ITERATION_MARK}
  call void @begin_section(i64 %section, i64 %mark, i64 %now)
  store i64 %now, ptr %started.at
  %readings = load i64, ptr %readings.at
  store i64 %readings, ptr %read.at
  store i64 1, ptr %countdown.at
  %iterations = load i64, ptr %iterations.at
  %sum = add i64 %iterations, 1
  store i64 %sum, ptr %iterations.at
  ret void""",
)

# Before a loop, if what is around it is timed.
_ENTER = _function(
    "void @hlo.profile.enter(i64 %at, i64 %section)",
    f"""entry:
  %loop = getelementptr i64, ptr @{RECORD}, i64 %at
{_words(f"@{RECORD}", flag=FLAG)}
{_words("%loop", countdown=COUNTDOWN, iterations=ITERATIONS, outer=OUTER, around=AROUND)}
  %around = load i64, ptr %flag.at
  store i64 %around, ptr %around.at
  store i64 0, ptr %flag.at
  store i64 1, ptr %outer.at
  %now = call i64 @ticks()
  call void @account(i64 %now)
  ; After iterations where nothing was timed, the next one is.
  %countdown = load i64, ptr %countdown.at
  %is.long = icmp sgt i64 %countdown, {_MOST_LEFT_OUT}
  %due = select i1 %is.long, i64 1, i64 %countdown
  %less = sub i64 %countdown, %due
  %iterations = load i64, ptr %iterations.at
  %counted = sub i64 %iterations, %less
  store i64 %due, ptr %countdown.at
  store i64 %counted, ptr %iterations.at
  ; If the first iteration is to be left out, this belongs to the rest.
  %is.due = icmp sle i64 %due, 1
  %others = add i64 %section, {SECTION_WORDS}
  %chosen = select i1 %is.due, i64 %section, i64 %others
  call void @begin_section(i64 %chosen, i64 %chosen, i64 %now)
  ret void""",
)

# After a loop that was entered. section: the one around it.
_LEAVE = _function(
    "void @hlo.profile.leave(i64 %at, i64 %section)",
    f"""entry:
  %loop = getelementptr i64, ptr @{RECORD}, i64 %at
{_words(f"@{RECORD}", flag=FLAG)}
{_words("%loop", outer=OUTER, around=AROUND, iterations=ITERATIONS)}
  %now = call i64 @ticks()
  call void @account(i64 %now)
  %flag = load i64, ptr %flag.at
  %is.timed = icmp ne i64 %flag, 0
  br i1 %is.timed, label %close, label %end
close:
  %left = call i64 @rest(ptr %loop, i64 %now)
  %rests = icmp sgt i64 %left, 0
  br i1 %rests, label %credit, label %end
credit:
  ; The countdown begins with the next iteration, not with one that has begun.
  %counted = load i64, ptr %iterations.at
  %less = sub i64 %counted, 1
  store i64 %less, ptr %iterations.at
  br label %end
end:
  call void @begin_section(i64 %section, i64 %section, i64 %now)
  %around = load i64, ptr %around.at
  store i64 %around, ptr %flag.at
  store i64 0, ptr %outer.at
  ret void""",
)

# What a program takes as its threads' `run`: state is { run, its state }. The task that it hands
# on is `share`, which times the task proper.
_RUN = _function(
    "void @hlo.profile.run(ptr %state, ptr %task, ptr %context, i64 %n, i64 %chunk)",
    f"""  %job = alloca {{ ptr, ptr, i64 }}
  %context.at = getelementptr i64, ptr %job, i64 1
  %section.at = getelementptr i64, ptr %job, i64 2
{_word("current", CURRENT)}
  %section = load i64, ptr %current.at
  store ptr %task, ptr %job
  store ptr %context, ptr %context.at
  store i64 %section, ptr %section.at
  %inner.at = getelementptr i64, ptr %state, i64 1
  %run = load ptr, ptr %state
  %inner = load ptr, ptr %inner.at
  call void %run(ptr %inner, ptr @share, ptr %job, i64 %n, i64 %chunk)
  ret void""",
)
_SHARE = _function(
    "internal void @share(ptr %job, i64 %begin, i64 %end)",
    f"""entry:
  %begun = call i64 @ticks()
  %context.at = getelementptr i64, ptr %job, i64 1
  %section.at = getelementptr i64, ptr %job, i64 2
  %task = load ptr, ptr %job
  %context = load ptr, ptr %context.at
  call void %task(ptr %context, i64 %begin, i64 %end)
  %section = load i64, ptr %section.at
  %ended = call i64 @ticks()
  %passed = sub i64 %ended, %begun
  %busy = add i64 %section, {BUSY}
  %busy.at = getelementptr i64, ptr @{RECORD}, i64 %busy
  %busy.before = atomicrmw add ptr %busy.at, i64 %passed monotonic
  %self = call i64 @pthread_self()
  %hashed = mul i64 %self, -7046029254386353131
  %high = lshr i64 %hashed, 58
  br label %look
look:
  %slot = phi i64 [ %high, %entry ], [ %next, %taken ]
  %tries = phi i64 [ 0, %entry ], [ %tried, %taken ]
  %place = mul i64 %slot, 2
  %index = add i64 %place, {THREADS}
  %id.at = getelementptr i64, ptr @{RECORD}, i64 %index
  %swapped = cmpxchg ptr %id.at, i64 0, i64 %self monotonic monotonic
  %id = extractvalue {{ i64, i1 }} %swapped, 0
  %fresh = icmp eq i64 %id, 0
  %own = icmp eq i64 %id, %self
  %found = or i1 %fresh, %own
  br i1 %found, label %add, label %taken
taken:
  %following = add i64 %slot, 1
  %next = and i64 %following, {MOST_THREADS - 1}
  %tried = add i64 %tries, 1
  %full = icmp eq i64 %tried, {MOST_THREADS}
  br i1 %full, label %done, label %look
add:
  %time.at = getelementptr i64, ptr %id.at, i64 1
  %time.before = atomicrmw add ptr %time.at, i64 %passed monotonic
{_words(f"@{RECORD}", count=SHARE, most=MOST_SHARES, shares=SHARES_AT)}
  %number = atomicrmw add ptr %count.at, i64 1 monotonic
  %most = load i64, ptr %most.at
  %fits = icmp slt i64 %number, %most
  br i1 %fits, label %keep, label %done
keep:
  %shares = load ptr, ptr %shares.at
  %first = mul i64 %number, {SHARE_WORDS}
  %share.at = getelementptr i64, ptr %shares, i64 %first
  %slot.at = getelementptr i64, ptr %share.at, i64 1
  %begun.at = getelementptr i64, ptr %share.at, i64 2
  %ended.at = getelementptr i64, ptr %share.at, i64 3
  store i64 %section, ptr %share.at
  store i64 %slot, ptr %slot.at
  store i64 %begun, ptr %begun.at
  store i64 %ended, ptr %ended.at
  br label %done
done:
  ret void""",
)


# What a section takes in which nothing is done, in ticks: the least of some trials.
_COST = _function(
    "i64 @hlo.profile.cost()",
    f"""entry:
  br label %trial
trial:
  %n = phi i64 [ 0, %entry ], [ %more, %trial ]
  %least = phi i64 [ {_NEVER}, %entry ], [ %less, %trial ]
  %before = call i64 @ticks()
  call void @hlo.profile.switch(i64 {SCRAPS})
  call void @hlo.profile.switch(i64 {SCRAPS})
  call void @hlo.profile.switch(i64 {SCRAPS})
  call void @hlo.profile.switch(i64 {SCRAPS})
  %after = call i64 @ticks()
  %passed = sub i64 %after, %before
  %smaller = icmp slt i64 %passed, %least
  %less = select i1 %smaller, i64 %passed, i64 %least
  %more = add i64 %n, 1
  %last = icmp eq i64 %more, 64
  br i1 %last, label %done, label %trial
done:
  %each = sdiv i64 %less, 5
  ret i64 %each""",
)


def _parts(triple: str, *, has_threads: bool) -> Iterator[str]:
    yield f"@{RECORD} = external global i64"
    yield ticks_ir(triple)
    yield from (_ACCOUNT, _BEGIN_SECTION, _SWITCH, _BEGIN, _END, _COST)
    yield from (_LEFT_OUT, _REST, _TURN, _ENTER, _LEAVE)
    if has_threads:
        yield "declare i64 @pthread_self()"
        yield from (_SHARE, _RUN)


def recorder_ir(triple: str, *, has_threads: bool) -> str:
    """Return the functions for a machine. has_threads: with those around shares of a kernel."""
    return "\n".join(_parts(triple, has_threads=has_threads))
