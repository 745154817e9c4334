------------------------------------------------ MODULE QuorumScripts ------------------------------------------------
\* The scripts of a quorum lock. Each maps the state k of one server's keys and the arguments to <<the new state, the
\* reply>>. The state has at least [tok, left, num]: the lock's token or None; the time that it lasts, -1: forever;
\* its number, 0 if there is none. Times have any unit. Quorum.tla and QuorumTrace.tla use these operators.
EXTENDS Integers
None == "none"                 Max(x, y) == IF x > y THEN x ELSE y
Odd(n) == n % 2 = 1            MakeOdd(n) == n + 1 - (n % 2) \* a recorded fence is odd, a minted number even
Free(k) == [k EXCEPT !.tok = None, !.left = 0]
Pttl(k) == IF k.tok = None THEN -2 ELSE k.left
Minted(num, clock) == MakeOdd(Max(num, clock - 1)) + 1 \* above the last number, and at least the clock

AcquireScript(k, t, ttl, candidate, minted) == \* quorum-acquire.lua
  LET n == IF k.num = 0 THEN minted ELSE k.num
  IN IF k.tok = None /\ candidate # "own" THEN
       <<[k EXCEPT !.tok = t, !.left = ttl, !.num = minted], <<"granted", minted>>>>
     ELSE IF k.tok = t THEN <<[k EXCEPT !.left = Max(@, ttl), !.num = n], <<"renewed", n>>>>
     ELSE <<k, <<"held", k.num % 2, Pttl(k)>>>>

FenceScript(k, t, f, ttl, found) == \* quorum-fence.lua; found: <<the number found>>, to restore also: the time since,
                                    \* the time within which it may run
  LET mine == k.tok = t  restore == DOMAIN found = 1..3  same == k.num = found[1]
      timely == restore /\ found[2] >= 0 /\ found[2] <= found[3] /\ found[2] < ttl
      left == IF ~mine THEN ttl - found[2] ELSE IF timely /\ same THEN Max(k.left, ttl - found[2]) ELSE k.left
      n == IF k.num > f /\ ~(same /\ (~Odd(k.num) \/ (restore /\ mine))) THEN MakeOdd(k.num) ELSE f
  IN IF ~mine /\ restore /\ k.tok # None THEN <<k, IF Odd(k.num) THEN 0 ELSE -1>>
     ELSE IF ~mine /\ (~restore \/ (Odd(k.num) /\ ~same) \/ ~timely) THEN <<k, 0>>
     ELSE <<[k EXCEPT !.tok = t, !.left = left, !.num = n], n>>

ReleaseScript(k, t, only) == \* quorum-release.lua; only: 0 any hold, -1 an unrecorded hold, or the hold with this fence
  IF k.tok # t \/ (only = -1 /\ (Odd(k.num) \/ k.num = 0)) \/ (only > 0 /\ k.num \notin {0, only})
  THEN <<k, 0>> ELSE <<Free(k), 1>>

RenewScript(k, t, ttl, f) == \* quorum-renew.lua; f: 0 any lease of the token, or the lease with this fence
  LET yes == k.tok = t /\ (f = 0 \/ k.num \in {0, f}) \* the last part of the reply is the time since the call
  IN <<IF yes THEN [k EXCEPT !.left = ttl] ELSE k, <<IF yes THEN "renewed" ELSE "missing", k.num, 0>>>>

BreakScript(k, t) == \* quorum-break.lua; t: None any holder; the reply is not 0 if the lock was broken
  IF k.tok = None \/ k.left < 0 \/ (t # None /\ k.tok # t) THEN <<k, 0>> ELSE <<Free(k), 1>>

InspectScript(k) == <<k, <<k.tok, Pttl(k), k.num>>>> \* quorum-inspect.lua
=======================================================================================================================
