---- MODULE Group ----
\* The lock of Lock.tla when several may hold it: readers beside writers, or the slots of a semaphore. One Redis and one
\* caller for each sidecar: replicas, turns and lost replies act on a group as on an exclusive lock (Lock.tla).
\* GroupScripts.tla and LockScripts.tla have the scripts.
EXTENDS GroupScripts
CONSTANTS
  Writers, Readers, Permits, \* callers of each mode; a caller is also its sidecar's ticket and its token
  Slots,          \* the size of the semaphore
  Events,         \* a set of strings: what may happen besides acquire, release and expiry
  Ttl, Margin     \* a lease's length in ticks; its holder relies on it for Margin ticks less, from before its request
VARIABLES
  lock,    \* see l in GroupScripts.tla; of a group left is 0, because a tick ends it with its last lease
  queue,   \* the tickets
  lease,   \* caller -> the ticks for which it relies on its lease
  call,    \* caller -> its acquire or renewal; left: the validity if it succeeds; ran: whether its script has run
  waits,   \* the callers that wait
  passed   \* ghost: ticket -> grants to others while it was queued
vars == <<lock, queue, lease, call, waits, passed>>
Callers == Writers \cup Readers \cup Permits
None == [c \in Callers |-> 0]
NoLock == [kind |-> "free", who |-> Free, left |-> 0, slots |-> 0, in |-> None, turn |-> None, told |-> Untold]
NoCall == [op |-> "none", left |-> 0, ran |-> FALSE]
Init == /\ lock = NoLock /\ queue = <<>> /\ lease = None /\ call = [c \in Callers |-> NoCall]
        /\ waits = {} /\ passed = None
\* ---- The scripts' surroundings. The model mints no fences; every offer and every grant does, as in Lock.tla.
Env == [count |-> 0, mint |-> 0, dead |-> {}, back |-> FALSE]
Ticket(c) == IF c \in waits THEN c ELSE Free
Args(c) == [token |-> c, ttl |-> Ttl, take |-> TRUE, owner |-> TRUE, ticket |-> Ticket(c), more |-> FALSE,
            slots |-> IF c \in Permits THEN Slots ELSE 0]
\* The state of an exclusive lock in LockScripts, where token {c} differs from ticket c; and back from it.
Single == [holder |-> CASE lock.kind = "one" -> {lock.who} [] lock.kind = "offer" -> lock.who [] OTHER -> Free,
           left |-> lock.left, fence |-> 0, recent |-> FALSE, queue |-> queue]
Token(c) == {c}
PutSingle(d) == /\ queue' = d.queue
  /\ lock' = IF d.holder = Free THEN NoLock
             ELSE IF d.holder \in Callers THEN [NoLock EXCEPT !.kind = "offer", !.who = d.holder, !.left = d.left]
             ELSE [NoLock EXCEPT !.kind = "one", !.who = CHOOSE c \in Callers : d.holder = {c}, !.left = d.left]
Put(x) == /\ queue' = x.q /\ lock' = IF x.l.kind = "group" THEN [x.l EXCEPT !.left = 0] ELSE x.l
Admitted(c) == /\ waits' = waits \ {c} /\ call' = [call EXCEPT ![c].ran = TRUE]
               /\ passed' = [u \in Callers |-> IF u /= c /\ Has(queue, u) THEN passed[u] + 1 ELSE 0]
Refused(c, reply) == \* the waiter waits on, unless the lock is held in another mode: that is an error
  /\ call' = [call EXCEPT ![c] = NoCall] /\ waits' = IF reply.is = "mode" THEN waits \ {c} ELSE waits
  /\ passed' = [passed EXCEPT ![c] = IF Has(queue, c) THEN @ ELSE 0]
\* ---- Callers
Wait(c) == /\ "wait" \in Events /\ call[c] = NoCall /\ lease[c] = 0 /\ waits' = waits \cup {c} /\ waits' /= waits
           /\ UNCHANGED <<lock, queue, lease, call, passed>>
Send(c, op) == /\ call[c] = NoCall /\ (op = "renew" => lease[c] > 0 /\ op \in Events)
               /\ (op = "acquire" => lease[c] = 0 /\ (lock.in[c] = 0 \/ "owner" \in Events))
               /\ call' = [call EXCEPT ![c] = [op |-> op, left |-> Ttl - Margin, ran |-> FALSE]]
               /\ UNCHANGED <<lock, queue, lease, waits, passed>>
Confirm(c) == /\ call[c].ran /\ lease' = [lease EXCEPT ![c] = IF call[c].left > 0 THEN call[c].left ELSE @]
              /\ call' = [call EXCEPT ![c] = NoCall] /\ UNCHANGED <<lock, queue, waits, passed>>
GiveUp(c) == /\ "give_up" \in Events /\ call[c] = NoCall /\ waits' = waits \ {c} /\ waits' /= waits
             /\ UNCHANGED <<lock, queue, lease, call, passed>>
\* ---- Scripts
Acquire(c) == \* acquire.lua, for a writer
  LET one == AcquireScript(Single, [Args(c) EXCEPT !.token = Token(c), !.owner = FALSE], Env)
      group == GroupAcquireScript(lock, queue, Args(c), Env) IN
  /\ c \in Writers /\ call[c].op = "acquire" /\ ~call[c].ran /\ UNCHANGED lease
  /\ CASE lock.kind = "group" /\ "mode" \notin Guards ->
            Admitted(c) /\ PutSingle(Give(Token(c), Ttl, 0, Without(queue, c)))
       [] lock.kind = "group" /\ "mode" \in Guards -> Put(group[1]) /\ Refused(c, group[2])
       [] OTHER -> PutSingle(one[1]) /\ IF one[2].is = "granted" THEN Admitted(c) ELSE Refused(c, one[2])
Share(c) == \* share.lua, for a reader or a slot
  LET r == ShareScript(lock, queue, Args(c), Env) IN
  /\ c \notin Writers /\ call[c].op = "acquire" /\ ~call[c].ran /\ Put(r[1]) /\ UNCHANGED lease
  /\ CASE r[2].is = "granted" -> Admitted(c)
       [] r[2].is = "extended" -> /\ waits' = waits \ {c} /\ call' = [call EXCEPT ![c].ran = TRUE] /\ UNCHANGED passed
       [] OTHER -> Refused(c, r[2])
Renew(c) == \* renew.lua, share-renew.lua
  LET a == [token |-> c, only |-> 0, ttl |-> Ttl, keeps |-> FALSE]
      one == RenewScript(Single, [a EXCEPT !.token = Token(c)])  group == ShareRenewScript(lock, queue, a, 0)
      r == IF lock.kind = "group" THEN group ELSE one IN
  /\ call[c].op = "renew" /\ ~call[c].ran /\ UNCHANGED <<waits, passed>>
  /\ IF lock.kind = "group" THEN Put(group[1]) ELSE PutSingle(one[1])
  /\ IF r[2].is = "renewed" THEN call' = [call EXCEPT ![c].ran = TRUE] /\ UNCHANGED lease
     ELSE call' = [call EXCEPT ![c] = NoCall] /\ lease' = [lease EXCEPT ![c] = 0]
Release(c) == \* release.lua, share-release.lua
  LET a == [token |-> c, only |-> 0, next |-> Free, ttl |-> 0, ticket |-> c, on |-> FALSE, more |-> FALSE,
            quick |-> FALSE, own |-> {c}] IN
  /\ lease[c] > 0 /\ call[c] = NoCall /\ lease' = [lease EXCEPT ![c] = 0] /\ UNCHANGED <<call, waits, passed>>
  /\ IF lock.kind = "group" THEN Put(ShareReleaseScript(lock, queue, a, 0, Env)[1])
     ELSE PutSingle(ReleaseScript(Single, [a EXCEPT !.token = Token(c)], Env)[1])
Leave(c) == \* leave.lua
  /\ c \notin waits /\ (Has(queue, c) \/ (lock.kind = "offer" /\ lock.who = c) \/ lock.turn[c] > 0)
  /\ IF lock.kind = "group" THEN Put(GroupLeaveScript(lock, queue, c, Env)[1])
     ELSE PutSingle(LeaveScript(Single, c, Env)[1])
  /\ UNCHANGED <<lease, call, waits, passed>>
Break == /\ "break" \in Events /\ lock.kind /= "free" /\ UNCHANGED <<lease, call, waits, passed>>   \* break.lua
         /\ IF lock.kind = "group" THEN Put(GroupBreakScript(lock, queue, 0, {}, Env)[1])
            ELSE PutSingle(BreakScript(Single, 0, Env)[1])
\* ---- Time: a group ends with its last lease
Dec(n) == IF n > 0 THEN n - 1 ELSE 0
IsTurn(c) == \/ lock.kind = "offer" /\ lock.who = c /\ lock.left = 1
             \/ lock.told.who = c /\ lock.told.how = "told" /\ lock.told.left = 1 /\ First(queue) = c
Wane(f) == [c \in Callers |-> Dec(f[c])]
Tick == LET l == [lock EXCEPT !.left = Dec(@), !.in = Wane(@), !.turn = Wane(@), !.told.left = Dec(@)] IN
  /\ lock' = IF l.left = 0 /\ Taken(l) = 0 THEN NoLock ELSE l
  /\ "prompt" \in Events => \A c \in waits : ~(IsTurn(c) \/ lock.turn[c] = 1)   \* a sidecar that runs is in time
  /\ lease' = Wane(lease) /\ call' = [c \in Callers |-> [call[c] EXCEPT !.left = Dec(@)]]
  /\ UNCHANGED <<queue, waits, passed>>
Next == \/ Tick \/ Break
        \/ \E c \in Callers : \/ Wait(c) \/ Send(c, "acquire") \/ Send(c, "renew") \/ Confirm(c) \/ GiveUp(c)
                              \/ Acquire(c) \/ Share(c) \/ Renew(c) \/ Release(c) \/ Leave(c)
Spec == Init /\ [][Next]_vars
FairSpec == /\ Spec /\ WF_vars(Tick)
            /\ \A c \in Callers : /\ WF_vars(Confirm(c)) /\ WF_vars(Leave(c)) /\ SF_vars(Acquire(c))
                                  /\ SF_vars(Share(c)) /\ SF_vars(c \in waits /\ Send(c, "acquire"))
Symmetry == Permutations(Writers) \cup Permutations(Readers) \cup Permutations(Permits)
\* ---- Promises
Relies(s) == {c \in s : lease[c] > 0}
SharedExcludesExclusive == Relies(Writers) = {} \/ Cardinality(Relies(Callers)) = 1
ModesExclude == \A s, t \in {Writers, Readers, Permits} : s /= t => Relies(s) = {} \/ Relies(t) = {}
SemaphoreWithinSlots == Cardinality(Relies(Permits)) =< Slots
NoOvertaking == \A c \in Callers : passed[c] =< Cardinality(Callers) - 1
Served == \A c \in Callers : c \in waits ~> c \notin waits   \* every waiter is granted or refused
====
