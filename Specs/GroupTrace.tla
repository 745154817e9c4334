---- MODULE GroupTrace ----
\* Compares recorded calls of the scripts of groups with GroupScripts.tla, as LockTrace.tla does for exclusive locks.
\* A step also has names: the tokens and tickets that occur in it. A state has the fields of l, but in and turn as
\* sequences of pairs, and: name: the group's; queue; fence, keeps, lasts: as in LockTrace.tla; grants: pairs of a token
\* and its fence; even: whether the group's keys end together. A call with few keys shows no leases: shown is FALSE.
EXTENDS GroupScripts, Steps
CONSTANT Lifetime   \* locks.fence_lifetime
Fun(pairs, names) == [n \in names |-> LET found == {i \in 1..Len(pairs) : pairs[i][1] = n} IN
                                      IF found = {} THEN 0 ELSE pairs[CHOOSE i \in found : TRUE][2]]
Lock(x, names) == [kind |-> x.kind, who |-> x.who, left |-> x.left, slots |-> x.slots, told |-> x.told,
                   in |-> Fun(x.in, names), turn |-> Fun(x.turn, names)]
Grant(s, x, token) == Fun(x.grants, s.names)[token]
Replied(s, r) == "r" \notin DOMAIN s \/ s.r = r
Env(s) == [count |-> 0, mint |-> 0, dead |-> s.a.dead, back |-> FALSE]   \* dead: as in LockTrace.tla
\* ---- What the model leaves out
\* The group's keys expire with its last lease. They may last longer, for a turn, only once that turn is taken or left.
Most(set) == CHOOSE n \in set : \A m \in set : n >= m
EndsKept(s, d, to) == LET last == Most({0} \cup {to.in[n] : n \in s.names} \cup {to.turn[n] : n \in s.names}) IN
  CASE to.kind /= "group" -> TRUE
    [] d.kind = "group" /\ to.in = d.in /\ to.turn = d.turn -> to.left \in {d.left, last}
    [] OTHER -> s.to.even /\ (to.left = last \/ \E t \in s.names : d.turn[t] > 0 /\ to.turn[t] = 0
                                                /\ to.left \in {d.left, Max(d.turn[t], last)} /\ to.left >= last)
FirstFence(s) == NextFence(s.d.fence, FALSE, s.now)   \* the first fence that the call mints
FenceKept(s, n, ttl) ==
  IF n = 0 THEN s.to.fence = s.d.fence /\ s.to.keeps = s.d.keeps
  ELSE /\ s.to.fence = FirstFence(s) + n - 1
       /\ \E least \in {Lifetime, Max(Lifetime, ttl)} : s.to.keeps \in {least, least + 1}
GrantsKept(s, r, to) == \A n \in s.names : Grant(s, s.to, n) =
  CASE to.in[n] = 0 -> 0
    [] r.is = "granted" /\ n = s.a.token -> FirstFence(s) + r.nth - 1
    [] OTHER -> Grant(s, s.d, n)
QueueKept(s, ticket, for) ==
  IF s.to.queue = <<>> THEN s.to.lasts = 0
  ELSE IF for = 0 \/ ~Has(s.to.queue, ticket) THEN s.to.lasts = s.d.lasts
  ELSE s.to.lasts = Max(s.d.lasts, for) \/ (s.to.lasts = for /\ s.to.queue = <<ticket>>)
\* ---- Steps. r: the operator's result; ttl: of a new lease; ticket, for: as in LockTrace.tla
Changes(s, r, ttl, ticket, for) ==
  LET d == Lock(s.d, s.names)  to == Lock(s.to, s.names) IN
  /\ r[1].q = s.to.queue /\ [r[1].l EXCEPT !.left = 0] = [to EXCEPT !.left = 0]
  /\ (to.kind /= "group" => to.left = r[1].l.left) /\ EndsKept(s, d, to)
  /\ FenceKept(s, r[1].n, ttl) /\ GrantsKept(s, r[2], to) /\ QueueKept(s, ticket, for)
\* The reply also names the fence and the group.
Full(s, r) == CASE r.is = "granted" -> [is |-> "granted", fence |-> FirstFence(s) + r.nth - 1, name |-> s.to.name,
                                        after |-> r.after]
                [] r.is = "extended" -> [is |-> "extended", fence |-> Grant(s, s.d, s.a.token), name |-> s.to.name,
                                         after |-> r.after]
                [] OTHER -> r
For(s, r) == IF r.is = "held" THEN s.a.waits ELSE s.a.others
Shared(s, l, e) == LET r == ShareScript(l, s.d.queue, s.a, e) IN
  /\ Changes(s, r, s.a.ttl, s.a.ticket, For(s, r[2])) /\ Replied(s, Full(s, r[2]))
  /\ s.to.kind = "group" => s.to.name = IF s.d.kind = "group" THEN s.d.name ELSE s.a.name
Left(s, l, e) == \E listed \in {FALSE, s.a.listed} :   \* an expired turn may still be listed
  LET t == s.a.ticket  r == GroupLeaveScript(IF listed THEN [l EXCEPT !.turn[t] = 1] ELSE l, s.d.queue, t, e) IN
  Changes(s, r, Claim, Free, 0) /\ Replied(s, r[2])
With(s, r) == Changes(s, r, Claim, Free, 0) /\ Replied(s, r[2])
Reads(x, r) == x.to = x.d /\ Replied(x, r)
\* The leases that end first, in this order, and the tickets in the order of their turns: first those that have one.
Found(x) ==
  LET l == Lock(x.d, x.names)  leases == x.r.leases  end(n) == Max(l.in[n], l.turn[n])
      listed == [i \in 1..Len(leases) |-> leases[i][1]]  set == {listed[i] : i \in 1..Len(listed)}
      waiting == SelectSeq(listed, LAMBDA n : l.turn[n] > 0) \o x.d.queue IN
  /\ x.r.name = x.d.name /\ x.r.left = l.left /\ x.r.fence = x.d.fence /\ x.r.held = Taken(l) /\ x.r.slots = l.slots
  /\ Len(leases) = (IF Taken(l) < x.a.most THEN Taken(l) ELSE x.a.most)
  /\ Cardinality(set) = Len(leases) /\ set \subseteq Lasting(l.in) \cup Lasting(l.turn)
  /\ \A i \in 1..Len(leases) : /\ leases[i][2] = end(listed[i]) /\ leases[i][3] = Grant(x, x.d, listed[i])
                               /\ i > 1 => leases[i][2] >= leases[i - 1][2]
  /\ \A n \in (Lasting(l.in) \cup Lasting(l.turn)) \ set, m \in set : end(n) >= end(m)
  /\ x.r.waiting = IF Len(waiting) > x.a.most THEN SubSeq(waiting, 1, x.a.most) ELSE waiting
All(s) == {s.all[i] : i \in 1..Len(s.all)}   \* the locks of one call
Changed(s) == LET l == Lock(s.d, s.names)  q == s.d.queue  e == Env(s)  a == s.a IN
  CASE s.op = "share" -> Shared(s, l, e)
    [] s.op = "acquire" -> LET r == GroupAcquireScript(l, q, a, e) IN
                           Changes(s, r, a.ttl, a.ticket, For(s, r[2])) /\ Replied(s, r[2])
    [] s.op = "share-renew" -> With(s, ShareRenewScript(l, q, a, Grant(s, s.d, a.token)))
    [] s.op = "share-release" -> With(s, ShareReleaseScript(l, q, a, Grant(s, s.d, a.token), e))
    [] s.op = "leave" -> Left(s, l, e)
    [] s.op = "break" -> With(s, GroupBreakScript(l, q, a.only, {Grant(s, s.d, n) : n \in s.names} \ {0}, e))
Legal(s) ==
  CASE "unexpected" \in DOMAIN s -> FALSE   \* as in LockTrace.tla
    [] "r" \in DOMAIN s /\ s.r.is = "error" -> s.to = s.d   \* Redis rejected the script's first write
    [] s.op \in {"renew", "release"} -> Reads(s, [is |-> "group"])   \* the group's members have other scripts
    [] s.op = "lease-state" -> \A x \in All(s) : LET a == x.a IN
         Reads(x, [is |-> "state", left |-> GroupLeaseStateScript(Lock(x.d, x.names), a.token,
                                                                  Grant(x, x.d, a.token), a.only)])
    [] s.op = "inspect" -> \A x \in All(s) : x.to = x.d /\ ("r" \in DOMAIN x => Found(x))
    [] OTHER -> Changed(s)
ASSUME PrintT(<<"illegal", {i \in 1..Len(Steps) : ~Legal(Steps[i])}>>)
====
