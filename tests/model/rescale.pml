/* The protocol of docs/rescale.md, for SPIN.  See README.md for what stands for what.
 *
 * Sizes: N replicas that may ever exist, of which FIRST are the first group; S steps; at most DEATHS, HANGS, CRASHES
 * (of the supervisor) and CHANGES of the allocation; G is the highest group number.
 * Mutants: -DMUTANT_x breaks one rule; SPIN must find a violation of each (check.sh).
 * -DBETWEEN: the program gathers something between the exchange of each step and its application.
 * -DLIVENESS: faults may stop at any time, and the formula below says what must follow.
 */
#ifndef N
#define N 3
#endif
#ifndef FIRST
#define FIRST 2
#endif
#ifndef S
#define S 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef HANGS
#define HANGS 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef CHANGES
#define CHANGES 1
#endif
#ifndef G
#define G 6
#endif
#define GROUPS (G + 1)

#define BIT(r) (1 << (r))
#define ALL (BIT(N) - 1)
#define IN(r, mask) (((mask) >> (r)) & 1)

#define LOWEST(mask) (IN(0, mask) -> 0 : (IN(1, mask) -> 1 : (IN(2, mask) -> 2 : 3)))

/* Where a replica is. */
#define FRESH 0   /* newcomer that waits for a plan */
#define TRAIN 1   /* member of group[r] */
#define WAIT 2    /* its group is broken: waits for a plan */
#define MEET 3    /* rebuild of tried[r]: connects, exchanges positions */
#define COPY 4    /* waits for the source's states */
#define BARRIER 5 /* the last barrier */

/* Collectives of the job. */
#define STEP 0
#define AGREE 1
#define MERGE 2
#define LEAVE 3 /* barrier before the group is left */
#define FINISH 4
#define BETWEEN_STEP 5 /* gather after the exchange; the step is applied when it is complete */

/* Processes: masks. */
byte ended = 0;              /* has died, exited or was stopped */
byte finished = 0;           /* exited with 0 */
byte hung = 0;
byte stop = 0;               /* ordered to stop */
byte deaths = DEATHS, hangs = HANGS, crashes = CRASHES, changes = CHANGES;

/* Replicas. */
byte phase[N];
byte group[N];               /* entered last */
byte tried[N];               /* newest group it has tried */
byte held[N];                /* newest plan received */
byte position[N];            /* 0: has none */
byte steps[N];               /* optimiser steps in its parameters */
byte todo[N];                /* next collective of the job */
byte target[N];              /* group agreed on */
byte merged[N];              /* newest plan before which the states were merged */
byte applied[N * S];         /* by which group each step was applied */
byte batch[N];               /* whom the batch size is for that was agreed on with the last step: members */
#ifdef BETWEEN
byte opened[N];              /* group of the exchange that is complete and was not applied; 0: none */
bool agrees[N];              /* all held plans in that exchange */
bool voids[N];               /* begins that step anew once it enters tried[r] */
byte nearest[GROUPS];        /* least position of those that meet, newcomers aside */
bool open_ahead[GROUPS];     /* the furthest have not applied their last step */
#endif
bool inside[N];              /* has begun todo[r], has not completed it */
#ifdef MUTANT_OLD_NOT_TURNED_AWAY
byte believed[N];            /* group that it takes its communicator for */
#else
#define believed tried
#endif
bool misplaced[N];           /* broken since group[r] was entered: newcomers could not join here */

/* Communicators: one per group. */
byte begun[GROUPS * N];      /* collectives begun by each member */
byte gone[GROUPS];           /* members that have left it */
byte total[GROUPS];            /* contributions to the running collective */
byte kind[GROUPS];           /* kind of the running collective */
byte result[GROUPS * 2];     /* of the last two collectives */
byte source[GROUPS];         /* result of the gather of positions */
byte furthest[GROUPS];

/* The supervisor: stored. */
byte members[GROUPS];        /* 0: no such plan, or given up */
byte current = 1;
byte newest = 1;             /* newest plan, or the current group */
byte top = 1;                /* highest number given */
byte used = BIT(FIRST) - 1;  /* replicas that a plan has ever held */
byte suspected = 0;          /* ordered to stop; stored before the order */
/* The supervisor: lost in a crash. */
byte reported = 0;           /* members that wait */
byte known = 0;              /* processes known to have ended; workers repeat it */
bool restart = false;        /* nobody is left: restart from the checkpoint */
/* Messages to the supervisor that travel; any order. */
byte says_broken[GROUPS];
bool says_member[GROUPS];

#ifdef LIVENESS
bool calm = false;           /* no fault, and no change, comes any more */
#endif

/* For the properties. */
byte started[GROUPS];        /* position at which the group began, 0: not yet */
byte view[GROUPS];           /* membership that its members believe in */
byte agreed[GROUPS];         /* batch with which the group began */
byte lineage[S];             /* what the newest started group holds */

byte i, j;                   /* for d_steps; always 0 outside */
bool yes;

#define LIVE(r) (!IN(r, ended) && !IN(r, hung))
/* The communicator that r uses now. */
#define COMM(r) (phase[r] == TRAIN -> group[r] : tried[r])
/* Cannot be heard any more. */
#define SILENT(g) ((gone[g] | ended | hung) & members[g])

inline EndProcess(r) {
  ended = ended | BIT(r);
  hung = hung & ~BIT(r);
  phase[r] = FRESH; group[r] = 0; tried[r] = 0; held[r] = 0; position[r] = 0; todo[r] = 0; target[r] = 0;
#ifdef BETWEEN
  opened[r] = 0; agrees[r] = false; voids[r] = false;
#endif
  merged[r] = 0; batch[r] = 0; inside[r] = false; misplaced[r] = false
}

/* Member i of g, if it is one, has begun the collective that r has begun. */
#define HAS_BEGUN(g, r, i) (!IN(i, members[g]) || begun[(g) * N + i] >= begun[(g) * N + r])
#if N == 2
#define ALL_BEGUN(g, r) (HAS_BEGUN(g, r, 0) && HAS_BEGUN(g, r, 1))
#elif N == 3
#define ALL_BEGUN(g, r) (HAS_BEGUN(g, r, 0) && HAS_BEGUN(g, r, 1) && HAS_BEGUN(g, r, 2))
#else
#define ALL_BEGUN(g, r) (HAS_BEGUN(g, r, 0) && HAS_BEGUN(g, r, 1) && HAS_BEGUN(g, r, 2) && HAS_BEGUN(g, r, 3))
#endif

/* r contributes `given` to its next collective of g. */
inline Begin(g, r, given) {
  begun[(g) * N + r]++;
  yes = true; /* nobody else has begun it */
  j = 0;      /* how many members have not begun it */
  for (i : 0 .. N - 1) {
    if
    :: IN(i, members[g]) && i != r && begun[(g) * N + i] >= begun[(g) * N + r] -> yes = false
    :: IN(i, members[g]) && begun[(g) * N + i] < begun[(g) * N + r] -> j++
    :: else
    fi
  }
  if
  :: yes -> total[g] = given; kind[g] = todo[r]
  :: else ->
     assert(kind[g] == todo[r]); /* members are at the same place of the program */
     if
     :: total[g] != given -> total[g] = 0 /* holds for "all hold a plan" and for "all hold the same" */
     :: else
     fi
  fi;
  if
  :: j == 0 -> result[(g) * 2 + (begun[(g) * N + r] & 1)] = total[g]; total[g] = 0; kind[g] = 0
  :: else
  fi;
  i = 0; j = 0; yes = false
}

inline Abandon(g, r) {
  gone[g] = gone[g] | BIT(r);
  inside[r] = false;
  if
  :: ((gone[g] | ended) & members[g]) == members[g] -> /* nobody looks at it any more: fewer states */
     for (i : 0 .. N - 1) { begun[(g) * N + i] = 0 }
     i = 0;
     total[g] = 0; kind[g] = 0; result[(g) * 2] = 0; result[(g) * 2 + 1] = 0; source[g] = 0; furthest[g] = 0;
#ifdef BETWEEN
     nearest[g] = 0; open_ahead[g] = false;
#endif
     gone[g] = members[g]
  :: else
  fi
}

/* r's communicator g does not work: report it and wait for a plan. */
inline Break(g, r) {
  Abandon(g, r);
  says_broken[g] = says_broken[g] | BIT(r);
  misplaced[r] = true;
  if
  :: position[r] == 0 -> phase[r] = FRESH
  :: else -> phase[r] = WAIT
  fi
}

/* r goes to the rendezvous of plan h. */
inline GoMeet(r, h) {
  tried[r] = h;
  believed[r] = h;
  phase[r] = MEET;
  begun[(h) * N + r] = 1;
  /* the furthest, of these the lowest rank; a position is above 0 */
  if
  :: position[r] > furthest[h] || (position[r] == furthest[h] && (r) < source[h]) ->
     furthest[h] = position[r]; source[h] = r;
#ifdef BETWEEN
     open_ahead[h] = (opened[r] != 0)
#endif
  :: else
  fi;
#ifdef BETWEEN
  voids[r] = false;
  if
  :: position[r] != 0 && (nearest[h] == 0 || position[r] < nearest[h]) -> nearest[h] = position[r]
  :: else
  fi
#endif
}

inline After(r) { /* what follows a step or a gather, except for an agreement */
  todo[r] = (steps[r] == S -> FINISH : STEP)
}

inline Enter(r, h) {
  group[r] = h;
  phase[r] = TRAIN;
#ifdef BETWEEN
  if
  :: voids[r] -> opened[r] = 0; todo[r] = STEP; position[r] = furthest[h]; voids[r] = false
  :: else
  fi;
#ifdef MUTANT_DROPS_OPEN
  opened[r] = 0;
#endif
#endif
  misplaced[r] = false;
  if
  :: todo[r] == MERGE || todo[r] == LEAVE -> After(r) /* the switch is done, or overtaken */
  :: else
  fi;
  if
  :: h > current -> says_member[h] = 1
  :: else
  fi;
  /* Property 1. A straggler may still enter a group that the others have left; it completes nothing there. */
  yes = true;
  for (i : 1 .. G) {
    if
    :: i > h && started[i] != 0 -> yes = false
    :: else
    fi
  }
  if
  :: started[h] == 0 ->
     started[h] = position[r]; view[h] = members[believed[r]]; agreed[h] = batch[r]
  :: else ->
     assert(started[h] == position[r] && view[h] == members[believed[r]] && agreed[h] == batch[r])
  fi;
  for (i : 0 .. S - 1) {
    if
    :: yes && i < steps[r] ->
       assert(lineage[i] == 0 || lineage[i] == applied[(r) * S + i]); /* nothing is lost or changed */
       lineage[i] = applied[(r) * S + i]
    :: yes && i >= steps[r] -> assert(lineage[i] == 0 || lineage[i] == h)
    :: else
    fi
  }
  i = 0; yes = false
}

inline Apply(r, g, all_hold_plans) {
  applied[(r) * S + steps[r]] = g;
  batch[r] = members[g]; /* every step decides on one, for the members of the group that takes it */
  steps[r]++;
  if
  :: all_hold_plans && steps[r] < S -> todo[r] = AGREE
  :: else -> After(r)
  fi
}

inline CompleteStep(g, r) {
  /* Property 2: no newer group with r has started. */
  for (i : 1 .. G) { assert(!(i > g && started[i] != 0 && IN(r, members[i]))) }
  i = 0;
  position[r]++;
#ifdef BETWEEN
  opened[r] = g;
  agrees[r] = (result[(g) * 2 + (begun[(g) * N + r] & 1)] != 0);
  todo[r] = BETWEEN_STEP
#else
  Apply(r, g, result[(g) * 2 + (begun[(g) * N + r] & 1)] != 0)
#endif
}

inline CompleteAgree(g, r) {
  target[r] = result[(g) * 2 + (begun[(g) * N + r] & 1)];
#ifdef MUTANT_NO_COMPARISON
  target[r] = (target[r] != 0 -> held[r] : 0);
#endif
  position[r]++;
  if
  :: target[r] > g -> todo[r] = MERGE
  :: else -> After(r)
  fi
}

/* r leaves g after an agreement. */
inline Switch(g, r) {
  Abandon(g, r);
  if
  :: IN(r, members[target[r]]) -> GoMeet(r, target[r])
  :: else ->
     /* What only a leaver has is handed over. */
     for (i : 0 .. N - 1) { assert(!IN(i, members[target[r]] & members[g] & ~ended) || merged[i] >= target[r]) }
     i = 0;
     EndProcess(r)
  fi
}

/* r may follow plan h from where it is. */
#define FITS(r, h) (!misplaced[r] || position[r] == 0 || (members[h] & ~members[tried[r]]) == 0)

/* Member i of g does not come to its rendezvous: it is broken elsewhere, or at a newer group. */
#define AWAY(g, i) (IN(i, members[g]) && begun[(g) * N + i] == 0 && (phase[i] == WAIT && !FITS(i, g) || tried[i] > g))
#if N == 2
#define ANY_AWAY(g) (AWAY(g, 0) || AWAY(g, 1))
#elif N == 3
#define ANY_AWAY(g) (AWAY(g, 0) || AWAY(g, 1) || AWAY(g, 2))
#else
#define ANY_AWAY(g) (AWAY(g, 0) || AWAY(g, 1) || AWAY(g, 2) || AWAY(g, 3))
#endif

#ifdef MUTANT_NO_ROLL_FORWARD
#define IS_BEHIND(r) (position[r] == 0)
#else
#define IS_BEHIND(r) (position[r] < furthest[tried[r]])
#endif

/* Some lack the exchange that the furthest have completed and not applied: it never was. */
#ifdef BETWEEN
#ifdef MUTANT_KEEPS_HALF_DONE
#define UNDONE(h) false
#else
#define UNDONE(h) (open_ahead[h] && nearest[h] < furthest[h])
#endif
#else
#define UNDONE(h) false
#endif

/* Plan h is in a message to r. */
#define RECEIVE(h) \
  :: d_step { LIVE(r) && held[r] < h && h <= newest && members[h] != 0 && (IN(r, members[h]) || group[r] != 0) -> \
              held[r] = h }

proctype Replica(byte r) {
  byte h;
end:
  do
  :: IN(r, ended) -> break
  :: d_step { IN(r, stop) && !IN(r, ended) -> EndProcess(r) }

  /* Plans arrive: late, some never. */
  RECEIVE(2)
#if G >= 3
  RECEIVE(3)
#endif
#if G >= 4
  RECEIVE(4)
#endif
#if G >= 5
  RECEIVE(5)
#endif
#if G >= 6
  RECEIVE(6)
#endif
#if G >= 7
  RECEIVE(7)
#endif
#if G >= 8
  RECEIVE(8)
#endif

  /* Collectives of the job. */
  :: d_step {
       LIVE(r) && phase[r] == TRAIN && !inside[r] && gone[group[r]] == 0 ->
       inside[r] = true;
#ifdef MUTANT_NO_COMPARISON
       h = (held[r] > group[r]);
#else
       h = (held[r] <= group[r] -> 0 : (todo[r] == AGREE -> held[r] : 1));
#endif
       h = (todo[r] == STEP || todo[r] == AGREE -> h : 1);
       Begin(group[r], r, h);
       h = 0
     }
  :: d_step {
       LIVE(r) && phase[r] == TRAIN && inside[r] && ALL_BEGUN(group[r], r) ->
       inside[r] = false;
       if
       :: todo[r] == STEP -> CompleteStep(group[r], r)
       :: todo[r] == AGREE -> CompleteAgree(group[r], r)
       :: todo[r] == MERGE ->
          merged[r] = target[r];
          position[r]++;
          todo[r] = LEAVE;
#ifdef MUTANT_NO_BARRIER_BEFORE_LEAVING
          Switch(group[r], r)
#endif
       :: todo[r] == LEAVE -> Switch(group[r], r)
#ifdef BETWEEN
       :: todo[r] == BETWEEN_STEP ->
          assert(opened[r] != 0); /* there are gradients to apply */
          position[r]++;
          Apply(r, opened[r], agrees[r]);
          opened[r] = 0; agrees[r] = false
#endif
       :: todo[r] == FINISH -> finished = finished | BIT(r); EndProcess(r)
       fi
     }
  :: d_step {
       LIVE(r) && phase[r] == TRAIN && (SILENT(group[r]) & ~BIT(r)) != 0 ->
       if
       :: todo[r] == LEAVE && IN(r, members[target[r]]) -> Switch(group[r], r)
       :: else -> Break(group[r], r)
       fi
     }

  /* A plan ends the wait, whether for a plan or for peers. */
  :: d_step {
       LIVE(r) && phase[r] != TRAIN && held[r] > tried[r] && IN(r, members[held[r]]) && FITS(r, held[r]) ->
       if
       :: phase[r] >= MEET -> Abandon(tried[r], r)
       :: else
       fi;
       GoMeet(r, held[r])
     }
#ifdef MUTANT_OLD_NOT_TURNED_AWAY
  /* Rank 0 of the group that r tries is at a newer one already, and takes r as its member. */
  :: d_step {
       LIVE(r) && phase[r] == MEET && begun[tried[r] * N + r] == 1 && believed[r] == tried[r] &&
       phase[LOWEST(members[tried[r]])] == MEET && tried[LOWEST(members[tried[r]])] > tried[r] ->
       h = tried[r];
       GoMeet(r, tried[LOWEST(members[h])]);
       believed[r] = h;
       h = 0
     }
#endif

  /* Rebuild and synchronise. */
  :: d_step {
       LIVE(r) && phase[r] == MEET && ALL_BEGUN(tried[r], r) ->
       assert(furthest[tried[r]] > 0); /* somebody has a state */
       if
#ifdef BETWEEN
#ifndef MUTANT_KEEPS_HALF_DONE
       :: UNDONE(tried[r]) && position[r] != 0 -> voids[r] = true; phase[r] = BARRIER; begun[tried[r] * N + r] = 2
#endif
#endif
       :: IS_BEHIND(r) && !(UNDONE(tried[r]) && position[r] != 0) -> phase[r] = COPY
       :: else -> phase[r] = BARRIER; begun[tried[r] * N + r] = 2
       fi;
#ifdef MUTANT_COMMIT_BEFORE_BARRIER
       if
       :: phase[r] == BARRIER -> Enter(r, tried[r])
       :: else
       fi
#endif
     }
  :: d_step {
       LIVE(r) && phase[r] == COPY && begun[tried[r] * N + source[tried[r]]] >= 2 &&
       !IN(source[tried[r]], gone[tried[r]] | ended) ->
       h = source[tried[r]];
#ifndef MUTANT_COMMIT_BEFORE_BARRIER
       assert(position[h] == furthest[tried[r]]);
#endif
       assert(position[r] == 0 || position[r] + 1 == position[h]);
       /* Nothing is undone by the roll-forward. */
       for (i : 0 .. S - 1) {
         assert(i >= steps[r] || applied[r * S + i] == applied[h * S + i]);
         applied[r * S + i] = applied[h * S + i]
       }
#ifdef BETWEEN
       assert(opened[h] == 0); /* what is handed over is as after a step */
       assert(opened[r] == 0 || applied[h * S + steps[r]] == opened[r]);
       opened[r] = 0; agrees[r] = false;
#endif
       i = 0;
#ifdef MUTANT_NEW_WORLD_SIZE
       /* Those behind take what was agreed on for the members of the group that they go to. */
       batch[r] = (position[r] > 0 && steps[r] < steps[h] -> members[tried[r]] : batch[h]);
#else
       batch[r] = batch[h];
#endif
       position[r] = position[h]; steps[r] = steps[h]; todo[r] = todo[h]; target[r] = target[h]; merged[r] = merged[h];
       h = 0;
       phase[r] = BARRIER; begun[tried[r] * N + r] = 2;
#ifdef MUTANT_COMMIT_BEFORE_BARRIER
       Enter(r, tried[r])
#endif
     }
  :: d_step { LIVE(r) && phase[r] == BARRIER && ALL_BEGUN(tried[r], r) -> Enter(r, tried[r]) }
  /* A peer is gone, does not come, or r is turned away. */
  :: d_step {
       LIVE(r) && phase[r] >= MEET && ((SILENT(tried[r]) & ~BIT(r)) != 0 || ANY_AWAY(tried[r])) -> Break(tried[r], r)
     }
  od
}

/* Members that stay in every plan that may have become a group, and live for all that is known. */
#define STAY(h) (h > current && h <= newest && members[h] != 0 -> members[h] : ALL)
#if G == 4
#define STAYING (members[current] & STAY(2) & STAY(3) & STAY(4))
#elif G == 5
#define STAYING (members[current] & STAY(2) & STAY(3) & STAY(4) & STAY(5))
#elif G == 6
#define STAYING (members[current] & STAY(2) & STAY(3) & STAY(4) & STAY(5) & STAY(6))
#elif G == 7
#define STAYING (members[current] & STAY(2) & STAY(3) & STAY(4) & STAY(5) & STAY(6) & STAY(7))
#elif G == 8
#define STAYING (members[current] & STAY(2) & STAY(3) & STAY(4) & STAY(5) & STAY(6) & STAY(7) & STAY(8))
#endif
#ifdef MUTANT_LEFT_OUT_COMES_BACK
#define LIVING (members[current] & ~known & ~suspected)
#else
#define LIVING (STAYING & ~known & ~suspected)
#endif

#define WANT(h) (h >= current && h <= newest -> members[h] : 0)
#if G == 4
#define WANTED (members[current] | WANT(2) | WANT(3) | WANT(4))
#elif G == 5
#define WANTED (members[current] | WANT(2) | WANT(3) | WANT(4) | WANT(5))
#elif G == 6
#define WANTED (members[current] | WANT(2) | WANT(3) | WANT(4) | WANT(5) | WANT(6))
#elif G == 7
#define WANTED (members[current] | WANT(2) | WANT(3) | WANT(4) | WANT(5) | WANT(6) | WANT(7))
#elif G == 8
#define WANTED (members[current] | WANT(2) | WANT(3) | WANT(4) | WANT(5) | WANT(6) | WANT(7) | WANT(8))
#endif

/* A report that g is broken asks for another plan than the newest one. */
#define ASKS(r, g) \
  (g >= current && g <= newest && \
   (g == newest || (members[newest] & ~members[g]) != 0 || !IN(r, members[newest])) && \
   IN(r, members[current] | members[newest]))

inline Plan(mask) {
  assert(top < G); /* the number of plans is bounded by the number of faults and changes */
  top++;
  members[top] = mask;
  newest = top;
  reported = 0
}

/* r is known to wait for a plan. */
#ifdef MUTANT_REPORTS_BEGIN_ANEW
#define NOTE_REPORT(r) reported = BIT(r)
#else
#define NOTE_REPORT(r) reported = reported | BIT(r)
#endif

#define OVER (restart || (finished & known) != 0)

#define HEAR_MEMBER(g) \
  :: d_step { says_member[g] && g <= top -> \
              says_member[g] = 0; \
              if \
              :: g > current && members[g] != 0 -> \
                 current = g; \
                 for (i : 1 .. G) { \
                   if \
                   :: i <= g -> says_member[i] = 0 \
                   :: else \
                   fi; \
                   if \
                   :: i < g -> says_broken[i] = 0 \
                   :: else \
                   fi \
                 } \
                 i = 0 \
              :: else \
              fi }
#define HEAR_BROKEN(r, g) \
  :: d_step { IN(r, says_broken[g]) && ASKS(r, g) && !IN(r, reported) && !OVER -> \
              says_broken[g] = says_broken[g] & ~BIT(r); NOTE_REPORT(r) }
/* The heartbeats of one that waits repeat it. */
#define HEAR_REPLICA(r) \
  :: d_step { LIVE(r) && tried[r] != 0 && (phase[r] == WAIT || phase[r] == FRESH) && ASKS(r, tried[r]) && \
              !IN(r, says_broken[tried[r]] | reported) && !OVER -> NOTE_REPORT(r) } \
  :: d_step { IN(r, ended & ~known) -> known = known | BIT(r) } \
  HEAR_BROKEN(r, 1) HEAR_BROKEN(r, 2) HEAR_BROKEN(r, 3) HEAR_BROKEN(r, 4)

proctype Supervisor() {
  byte living;
  byte fresh;
end:
  do
  HEAR_REPLICA(0)
  HEAR_REPLICA(1)
#if N >= 3
  HEAR_REPLICA(2)
#endif
#if N >= 4
  HEAR_REPLICA(3)
#endif
  HEAR_MEMBER(2)
  HEAR_MEMBER(3)
  HEAR_MEMBER(4)
#if G >= 5
  HEAR_MEMBER(5)
#endif
#if G >= 6
  HEAR_MEMBER(6)
#endif
#if G >= 7
  HEAR_MEMBER(7)
#endif
#if G >= 8
  HEAR_MEMBER(8)
#endif

  /* Recovery. */
  :: d_step {
       !OVER && LIVING != 0 &&
       ((members[newest] & known) != 0 || ((LIVING & reported) != 0 && (LIVING & ~reported) == 0)) ->
       living = LIVING;
       Plan(living);
       living = 0
     }
  /* The suspicion period is over. One that merely is late may be hit, while another one has reported. */
  :: d_step {
       !OVER && reported != 0 && (LIVING & reported) != 0 && (LIVING & ~reported) != 0 ->
       living = LIVING & ~reported;
       suspected = suspected | living;
       stop = stop | living;
       living = 0
     }
  :: d_step {
       !OVER && reported != 0 && (LIVING & reported) == 0 && (LIVING & ~reported & hung) != 0 ->
       living = LIVING & ~reported & hung;
       suspected = suspected | living;
       stop = stop | living;
       living = 0
     }
  /* None of those that were to stay in the newest plan lives. */
  :: d_step {
       !OVER && LIVING == 0 && newest > current && (STAYING & ~known) == 0 && (members[newest] & ~stop & ~known) != 0 ->
       stop = stop | members[newest]
     }
  :: d_step {
       !OVER && LIVING == 0 && newest > current && (members[newest] & ~known) == 0 ->
       members[newest] = 0;
       for (i : 0 .. S - 1) { lineage[i] = 0 } /* its steps, if any, are lost with the last who knew them */
       i = 0;
       do
       :: members[newest] == 0 -> newest--
       :: else -> break
       od;
       living = 0
     }
  :: d_step {
       !OVER && newest == current && (members[current] & ~known) == 0 ->
       restart = true;
       stop = ALL
     }
  /* A member that has exited with 0 ends the job. */
  :: d_step { (finished & known) != 0 && (ALL & ~stop & ~ended) != 0 -> stop = ALL }
  /* Those that no plan holds any more are stopped. */
  :: d_step {
       (used & ~WANTED & ~stop) != 0 -> stop = stop | (used & ~WANTED)
     }
  /* Another allocation: one member leaves, or none; a newcomer comes, or none. */
  :: atomic {
       changes > 0 && !OVER && reported == 0 && (members[newest] & known) == 0 && LIVING != 0 ->
       changes--;
       living = LIVING;
       if
       :: true
       :: IN(0, living) && living != BIT(0) -> living = living & ~BIT(0)
       :: IN(1, living) && living != BIT(1) -> living = living & ~BIT(1)
#if N >= 3
       :: IN(2, living) && living != BIT(2) -> living = living & ~BIT(2)
#endif
       fi;
       if
       :: true
#if N > FIRST
       :: (used & BIT(FIRST)) == 0 -> living = living | BIT(FIRST)
#endif
#if N > FIRST + 1
       :: (used & BIT(FIRST + 1)) == 0 -> living = living | BIT(FIRST + 1)
#endif
       fi;
       if
       :: living != members[newest] -> used = used | living; Plan(living)
       :: else
       fi;
       living = 0
     }
  /* A crash: what was not stored is lost, and so are messages. Replicas attach again and say where they are. */
#if CRASHES > 0
  :: d_step {
       crashes > 0 ->
       crashes--;
       reported = 0;
       known = known & finished; /* success is stored */
       for (i : 1 .. G) {
         says_broken[i] = 0;
         says_member[i] = 0;
         for (j : 0 .. N - 1) {
           if
           :: !IN(j, ended) && phase[j] == TRAIN && group[j] == i && i > current -> says_member[i] = 1
           :: else
           fi
         }
       }
       i = 0; j = 0
     }
#endif
  od
}

#define DIE(r) :: d_step { deaths > 0 && !IN(r, ended) -> deaths--; EndProcess(r) }
#define HANG(r) \
  :: d_step { hangs > 0 && LIVE(r) -> hangs--; hung = hung | BIT(r) } \
  :: d_step { IN(r, hung) -> hung = hung & ~BIT(r) }

proctype Faults() {
end:
  do
  DIE(0)
  DIE(1)
#if N >= 3
  DIE(2)
#endif
#if N >= 4
  DIE(3)
#endif
#if HANGS > 0
  HANG(0)
  HANG(1)
#if N >= 3
  HANG(2)
#endif
#if N >= 4
  HANG(3)
#endif
#endif
#ifdef LIVENESS
  :: d_step { !calm -> calm = true; deaths = 0; hangs = 0; crashes = 0; changes = 0 }
#endif
  od
}

#ifdef LIVENESS
/* Property 4: when faults stop, training goes on. It has S steps: going on, it comes to its end. A restart from the
 * checkpoint is one of these ends, which Judge asks a reason for. */
ltl training_goes_on { [] (calm && hung == 0 -> <> (finished != 0 || restart)) }
#endif

/* Properties 3 and 4 in final states: nothing waits for ever, and training goes on to its end. */
proctype Judge() {
end:
  timeout ->
  assert(finished != 0 || restart);
  assert(!restart || deaths < DEATHS || hangs < HANGS)
}

init {
  d_step {
    members[1] = BIT(FIRST) - 1;
    started[1] = 1;
    view[1] = members[1];
    for (i : 0 .. N - 1) {
      if
      :: i < FIRST -> phase[i] = TRAIN; group[i] = 1; tried[i] = 1; held[i] = 1; position[i] = 1
      :: else
      fi
    }
    i = 0
  };
  atomic {
    run Replica(0);
    run Replica(1);
#if N >= 3
    run Replica(2);
#endif
#if N >= 4
    run Replica(3);
#endif
    run Supervisor();
    run Faults();
#ifndef LIVENESS
    run Judge()
#endif
  }
}
