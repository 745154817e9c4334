---- MODULE Lock ----
\* An exclusive lock: leases with fences on one Redis and its replicas, and the queue of waiting sidecars. One call of a
\* script is one action; it takes what the script receives, and sets what its reply says. Events name what may happen,
\* Guards the safeguards in force. LockScripts.tla has the scripts, LockState.tla the constants and the variables.
EXTENDS LockState
\* ---- Clients
Join(c) == /\ "wait" \in Events /\ Home[c] \notin net.dead /\ call[c] = NoCall /\ lease[c].left = 0 /\ ~Waits(c)
           /\ side' = [side EXCEPT ![Home[c]].q = Append(@, c)]
           /\ UNCHANGED <<db, net, lease, call, sent, ghost>>
Send(c, op, ttl) == LET valid == ttl - Margin  old == lease[c] IN
  /\ call[c] = NoCall /\ Home[c] \notin net.dead
  /\ CASE op = "renew" -> old.left > 0 /\ "renew" \in Events
       [] OTHER -> /\ old.left = 0 /\ First(side[Home[c]].q) \in {Free, c}   \* no call overtakes the sidecar's waiters
                   /\ "await_release" \in Guards => \A r \in sent : r[1] /= c
  /\ call' = [call EXCEPT ![c] = [NoCall EXCEPT !.op = op, !.ttl = ttl, !.left = valid, !.f = old.f, !.g = old.g]]
  /\ lease' = IF "shorten_first" \in Guards /\ old.left > valid THEN [lease EXCEPT ![c].left = valid] ELSE lease
  /\ UNCHANGED <<db, net, sent, side, ghost>>
Confirm(c) == \* the reply arrives; with locks.wait_replicas, after WAIT
  LET left == IF "validity_from_send" \in Guards THEN call[c].left ELSE call[c].ttl - Margin IN
  /\ call[c].at /= Free /\ ("wait_replicas" \in Guards => Cardinality(call[c].acks) >= WaitReplicas)
  /\ lease' = IF left > 0 THEN [lease EXCEPT ![c] = [f |-> call[c].f, g |-> call[c].g, left |-> left]] ELSE lease
  /\ call' = [call EXCEPT ![c] = NoCall] /\ UNCHANGED <<db, net, sent, side, ghost>>
Fail(c) == \* the call or its reply is lost, or too few replicas answer. Unless it is an owner's, the grant is released
  LET releases == call[c].op = "acquire" /\ call[c].at /= Free /\ "owner" \notin Events IN
  /\ "fail" \in Events /\ call[c] /= NoCall /\ call' = [call EXCEPT ![c] = NoCall]
  /\ sent' = (IF releases THEN sent \cup {<<c, call[c].f>>} ELSE sent) /\ UNCHANGED <<db, net, lease, side, ghost>>
LetGo(c) == \* sends a release and relies on the lease no longer
  /\ lease[c].left > 0 /\ call[c] = NoCall /\ Home[c] \notin net.dead
  /\ lease' = [lease EXCEPT ![c] = NoLease] /\ sent' = sent \cup {<<c, lease[c].f>>}
  /\ UNCHANGED <<db, net, call, side, ghost>>
GiveUp(c) == /\ "give_up" \in Events /\ Waits(c) /\ call[c] = NoCall
             /\ side' = [side EXCEPT ![Home[c]].q = Without(@, c)] /\ UNCHANGED <<db, net, lease, call, sent, ghost>>
Write(c) == LET l == lease[c] IN   \* even after the lease, because the client may have been paused
  /\ "write" \in Events /\ l.g > 0 /\ ("resource_checks" \in Guards => l.f >= ghost.seen)
  /\ ghost' = [ghost EXCEPT !.seen = Max(@, l.f), !.newest = Max(@, l.g), !.stale = @ \/ l.g < ghost.newest]
  /\ UNCHANGED <<db, net, lease, call, sent, side>>
\* ---- Scripts, on a server s that accepts writes
Acquire(c, s) ==
  LET d == db[s]  t == Home[c]  w == Waits(c)
      r == AcquireScript(d, [token |-> c, ttl |-> call[c].ttl, take |-> TRUE, owner |-> "owner" \in Events,
                             ticket |-> IF w THEN t ELSE Free, more |-> w /\ Len(side[t].q) > 1], Env(s)) IN
  /\ call[c].op = "acquire" /\ call[c].at = Free /\ UNCHANGED <<net, lease, sent>>
  /\ CASE r[2].is = "granted" -> Grant(s, c, r[1], call[c].ttl, call[c].left, IF w THEN 1 ELSE 0)
       [] r[2].is = "extended" ->
            /\ db' = [db EXCEPT ![s] = r[1]] /\ side' = [side EXCEPT ![t].q = Without(@, c)]
            /\ call' = [call EXCEPT ![c] = [@ EXCEPT !.at = s, !.f = r[2].fence, !.g = NextGrant]]
            /\ ghost' = [ghost EXCEPT !.n = NextGrant, !.rose = @ /\ r[2].fence >= ghost.hi]
       [] OTHER -> /\ db' = [db EXCEPT ![s] = r[1]] /\ call' = [call EXCEPT ![c] = NoCall]
                   /\ ghost' = Counted(s, t) /\ UNCHANGED side
Only(f) == IF "fenced" \in Guards THEN f ELSE 0
Renew(c, s) ==
  LET r == RenewScript(db[s], [token |-> c, only |-> Only(call[c].f), ttl |-> call[c].ttl, keeps |-> FALSE]) IN
  /\ call[c].op = "renew" /\ call[c].at = Free /\ UNCHANGED <<net, sent, side, ghost>> /\ db' = [db EXCEPT ![s] = r[1]]
  /\ IF r[2].is = "renewed" THEN call' = [call EXCEPT ![c].at = s] /\ UNCHANGED lease
     ELSE call' = [call EXCEPT ![c] = NoCall] /\ lease' = [lease EXCEPT ![c].left = 0]
Release(c, f, s) ==
  LET t == Home[c]  w == side[t].q  n == side[t].n  ttl == CHOOSE x \in Ttls : TRUE
      on == n \in 1..(MaxTurn - 1)            \* whether the sidecar's turn may continue
      next == w /= <<>> /\ WaitReplicas = 0   \* a grant here could not wait for replicas
      r == ReleaseScript(db[s], [token |-> c, only |-> Only(f), next |-> IF next THEN Head(w) ELSE Free,
                                 ttl |-> IF "successor_ttl" \in Guards THEN ttl ELSE Claim,
                                 ticket |-> t, on |-> on, more |-> Len(w) > 1, quick |-> on /\ Len(w) > 1,
                                 own |-> {t}], Env(s)) IN
  /\ <<c, f>> \in sent /\ sent' = sent \ {<<c, f>>} /\ UNCHANGED <<net, lease>>
  /\ CASE r[2].is = "missing" -> UNCHANGED <<db, call, side, ghost>>
       [] r[2].is = "passed" -> Grant(s, Head(w), r[1], ttl, ttl - Margin, IF on THEN n + 1 ELSE 1)
       [] OTHER -> /\ db' = [db EXCEPT ![s] = r[1]]
                   /\ side' = [side EXCEPT ![t].n = 0] /\ ghost' = Counted(s, t) /\ UNCHANGED call
Leave(t, s) == LET d == LeaveScript(db[s], t, Env(s))[1] IN
  /\ side[t].q = <<>> /\ t \notin net.dead /\ d /= db[s] /\ db' = [db EXCEPT ![s] = d]
  /\ UNCHANGED <<net, lease, call, sent, side, ghost>>
\* ---- Time and faults
Age(d) == [d EXCEPT !.recent = FALSE, !.left = Max(@, 1) - 1, !.holder = IF d.left > 1 THEN @ ELSE Free]
Tick == LET Wane(x) == [x EXCEPT !.left = Max(@, 1) - 1]
            ends(t) == \E s \in net.live : db[s].holder = t /\ db[s].left = 1 IN
  /\ "prompt" \in Events => \A t \in Sidecars : side[t].q = <<>> \/ ~ends(t)   \* a running sidecar claims in time
  /\ db' = [s \in Servers |-> Age(db[s])] /\ net' = [net EXCEPT !.cold = FALSE] /\ UNCHANGED <<sent, side, ghost>>
  /\ lease' = [c \in Clients |-> IF lease[c].left > 1 \/ "write" \in Events THEN Wane(lease[c]) ELSE NoLease]
  /\ call' = [c \in Clients |-> Wane(call[c])]
Lost(on) == [c \in Clients |-> IF call[c].at \in on THEN NoCall ELSE call[c]]   \* the calls that these servers ran
Replicate(r) == \* brings a replica up to date; makes an earlier primary a replica
  /\ r /= net.pri /\ db' = [db EXCEPT ![r] = db[net.pri]] /\ net' = [net EXCEPT !.live = @ \ {r}]
  /\ call' = [c \in Clients |-> IF call[c].at = net.pri THEN [call[c] EXCEPT !.acks = @ \cup {r}] ELSE Lost({r})[c]]
  /\ UNCHANGED <<lease, sent, side, ghost>>
Failover(r) == LET old == IF "split" \in Events THEN net.live ELSE {} IN   \* "split": an old primary accepts writes on
  /\ Fault("failover") /\ r \notin net.live /\ call' = Lost(net.live \ old)
  /\ UNCHANGED <<db, lease, sent, side, ghost>>
  /\ net' = [net EXCEPT !.pri = r, !.live = {r} \cup old, !.cold = TRUE, !.faults = @ + 1]
Disturb(s, e) == LET d == db[s] IN   \* a server loses its data, or its fence lapses; its clock jumps; or break.lua
  /\ Fault(e) /\ call' = (IF e = "restart" THEN Lost({s}) ELSE call) /\ UNCHANGED <<lease, sent, side, ghost>>
  /\ net' = [net EXCEPT !.faults = @ + 1, !.back = @ \/ e = "back", !.cold = @ \/ e = "restart"]
  /\ db' = [db EXCEPT ![s] = CASE e = "restart" -> Empty
       [] e = "forward" -> Age(d)
       [] e = "back" -> [d EXCEPT !.left = IF @ > 0 THEN @ + 1 ELSE 0]
       [] e = "forget" /\ d.holder = Free /\ ~d.recent /\ ("fence_until_clock" \in Guards => ~net.back) ->
            [d EXCEPT !.fence = 0]
       [] e = "break" /\ s \in net.live -> BreakScript(d, 0, Env(s))[1]
       [] OTHER -> d]
Kill(t) == /\ Fault("kill") /\ t \notin net.dead /\ net' = [net EXCEPT !.faults = @ + 1, !.dead = @ \cup {t}]
           /\ side' = [side EXCEPT ![t].q = <<>>] /\ UNCHANGED <<db, lease, call, sent, ghost>>
Next == \/ Tick \/ \E s \in net.live : \E r \in sent : Release(r[1], r[2], s)
        \/ \E c \in Clients, ttl \in Ttls : Send(c, "acquire", ttl) \/ Send(c, "renew", ttl)
        \/ \E c \in Clients : Join(c) \/ Confirm(c) \/ Fail(c) \/ LetGo(c) \/ GiveUp(c) \/ Write(c)
        \/ \E s \in net.live, c \in Clients : Acquire(c, s) \/ Renew(c, s)
        \/ \E t \in Sidecars : Kill(t) \/ \E s \in net.live : Leave(t, s)
        \/ \E s \in Servers : Replicate(s) \/ Failover(s)
        \/ \E s \in Servers, e \in {"restart", "forward", "back", "forget", "break"} : Disturb(s, e)
Spec == Init /\ [][Next]_vars
Try(c) == \E ttl \in Ttls : Waits(c) /\ Send(c, "acquire", ttl)
Deliver(c) == \E s \in net.live : \E r \in sent : r[1] = c /\ Release(c, r[2], s)
FairSpec == /\ Spec /\ WF_vars(Tick) /\ \A t \in Sidecars : WF_vars(\E s \in net.live : Leave(t, s))
            /\ \A c \in Clients : /\ WF_vars(Confirm(c)) /\ WF_vars(Deliver(c)) /\ SF_vars(Try(c))
                                  /\ SF_vars(\E s \in net.live : Acquire(c, s))
Bound == ghost.n =< MaxFence /\ \A s \in Servers : db[s].fence =< MaxFence
Symmetry == Permutations(Clients) \cup Permutations(Servers)
\* ---- Promises
MutualExclusion == Cardinality({c \in Clients : lease[c].left > 0}) =< 1
FencesRise == ghost.rose
StaleWritesRefused == ~ghost.stale
\* Ahead of a ticket are at most the rest of a turn and one turn of every other sidecar.
NoOvertaking == \A t \in Sidecars \ net.dead : ghost.passed[t] < MaxTurn * Cardinality(Sidecars)
Served == \A c \in Clients : Waits(c) ~> ~Waits(c)   \* every waiter is granted or refused
====
