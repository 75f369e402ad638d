//! The line is broken while the act is sent, at every turn of the conversation.
//!
//! A clean run shows which turns there are. Then each break is tried at each of them, with an act of its own. The turn at
//! which cutting the line no longer prevents the act is found on the way: the *acting turn* is the one before.

use std::sync::Arc;

use wilco_core::Clock;
use wilco_core::contract::Identity;

use super::{Cases, at};
use crate::Outcome;
use crate::kit::clock::Still;
use crate::kit::findings::{Stop, failed, not_applicable};
use crate::kit::judge;
use crate::kit::proxy::{Break, FaultProxy, Turn};
use crate::kit::trial::{Prepared, Trial};

/// The kit's own garbage: no protocol answers like this.
pub(super) const GARBAGE: &[u8] = b"\x15\x03\x00\xff\xfe{\"\r\n\r\n\0\0roger";

pub(super) async fn all(cases: &mut Cases<'_, '_>) {
    let trial = cases.trial;
    let Some(line) = trial.bench.proxy() else {
        let why = "there is no line to break: the bench has no proxy";
        cases.found("the line broken while sending", not_applicable(why));
        return;
    };
    let clean = Sending::clean(trial, line).await;
    let mut sending = match clean {
        Ok(sending) => sending,
        Err(stop) => return cases.found("the line broken while sending", Err(stop)),
    };
    trial.mend();
    let result = sending.cut_before().await;
    cases.found("cut before the request", result);
    for (name, how) in BREAKS {
        let result = sending.each(how).await;
        cases.found(name, result);
    }
    let result = sending.garbage().await;
    cases.found("a reply that cannot be read: unknown", result);
    let result = sending.in_pieces().await;
    cases.found("a reply in small pieces: understood all the same", result);
    let result = sending.twice().await;
    cases.found("the request arrives twice", result);
    let result = sending.too_late_in_the_middle().await;
    cases.found("too late at the last moment: not sent", result);
    let result = sending.sent_again().await;
    cases.found("sent again after the line broke: one effect", result);
    let result = sending.restarted(Break::Hold).await;
    cases.found("it restarts between request and reply", result);
    let result = sending.restarted(Break::CutReply).await;
    cases.found("it restarts between reply and lookup", result);
}

/// How long until the next look at something that is waited for.
const MOMENT: std::time::Duration = std::time::Duration::from_millis(5);

/// A break, fitted to a turn; none if the turn has nothing to break.
type Fit = fn(&Turn) -> Option<Break>;

const BREAKS: [(&str, Fit); 6] = [
    ("cut in the middle of the request", |turn| {
        (turn.said.len() > 1).then_some(Break::CutMiddle(turn.said.len() / 2))
    }),
    ("cut after the request", |turn| {
        (!turn.said.is_empty()).then_some(Break::CutAfter)
    }),
    ("cut before the reply", |turn| {
        (turn.answered > 0).then_some(Break::CutReply)
    }),
    ("cut in the middle of the reply", |turn| {
        (turn.answered > 1).then_some(Break::CutInReply)
    }),
    ("the reply comes too late", |turn| {
        (turn.answered > 0).then_some(Break::Hold)
    }),
    ("the request lands after the adapter gave up", |turn| {
        (!turn.said.is_empty()).then_some(Break::Late)
    }),
];

/// A turn of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    connection: usize,
    turn: usize,
    said: Turn,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "connection {}, turn {}", self.connection, self.turn)
    }
}

struct Sending<'t, 'a> {
    trial: &'t Trial<'a>,
    line: &'t FaultProxy,
    places: Vec<Place>,
    /// The acting turn, as an index of `places`; known after [`Sending::cut_before`].
    acting: Option<usize>,
    /// Whether the frozen body is seen on the line as it is, so that it can be counted there.
    body_is_seen: bool,
}

impl<'t, 'a> Sending<'t, 'a> {
    /// Sends an act without breaking anything, and learns the turns.
    async fn clean(trial: &'t Trial<'a>, line: &'t FaultProxy) -> Result<Self, Stop> {
        let act = trial.prepare().await?;
        line.begin();
        let outcome = trial.execute(&act).await?;
        let conversations = line.conversations();
        trial.aftermath(&act, &outcome, false).await?;
        let mut places = Vec::new();
        for (connection, conversation) in conversations.into_iter().enumerate() {
            for (turn, said) in conversation.turns.into_iter().enumerate() {
                if said != Turn::default() {
                    places.push(Place {
                        connection,
                        turn,
                        said,
                    });
                }
            }
        }
        if places.is_empty() {
            return failed("an act was sent, and nothing went by on the bench's proxy");
        }
        let mut sending = Sending {
            trial,
            line,
            places,
            acting: None,
            body_is_seen: false,
        };
        sending.body_is_seen = sending.times_said(&act) == 1;
        Ok(sending)
    }

    /// Sends an act of its own with this break at this place. None if the conversation never came there.
    async fn broken(&self, place: &Place, how: Break) -> Result<Option<(Prepared, Outcome)>, Stop> {
        let act = self.trial.prepare().await?;
        self.line.begin();
        self.line.arm(place.connection, place.turn, how);
        let outcome = self.trial.execute(&act).await?;
        let hit = self.line.hit();
        if self.body_is_seen && self.times_said(&act) > 1 {
            return failed(format!(
                "{outcome:?}, and the request was sent {} times: no adapter sends again by itself",
                self.times_said(&act)
            ));
        }
        Ok(hit.then_some((act, outcome)))
    }

    /// One break at every place it fits.
    async fn each(&self, fit: Fit) -> Result<(), Stop> {
        let (mut fitting, mut met) = (0, 0);
        for place in &self.places {
            let Some(how) = fit(&place.said) else { continue };
            fitting += 1;
            let broken = at(&place.to_string(), self.broken(place, how).await)?;
            if let Some((act, outcome)) = broken {
                met += 1;
                at(
                    &place.to_string(),
                    self.trial.aftermath(&act, &outcome, false).await,
                )?;
            }
        }
        tried(fitting, met)
    }

    /// Nothing of a turn arrives. Where the act's own bytes do not, there is no act.
    async fn cut_before(&mut self) -> Result<(), Stop> {
        let (mut fitting, mut met) = (0, 0);
        let mut acting = None;
        for (i, place) in self.places.iter().enumerate() {
            if place.said.said.is_empty() {
                continue;
            }
            fitting += 1;
            let broken = at(&place.to_string(), self.broken(place, Break::CutBefore).await)?;
            if let Some((act, outcome)) = broken {
                met += 1;
                let effects = at(
                    &place.to_string(),
                    self.trial.aftermath(&act, &outcome, false).await,
                )?;
                if effects.is_empty() {
                    acting = Some(i);
                }
            }
        }
        self.acting = acting;
        if met > 0 && acting.is_none() {
            return failed(
                "wherever the line is cut, the act happens: it is sent again by itself, or by another line than the bench's \
                 proxy",
            );
        }
        tried(fitting, met)
    }

    /// What cannot be read is no verdict.
    async fn garbage(&self) -> Result<(), Stop> {
        let mut kinds = vec![GARBAGE.to_vec()];
        kinds.extend(self.trial.bench.garbage());
        let (mut fitting, mut met) = (0, 0);
        for (i, place) in self
            .places
            .iter()
            .enumerate()
            .filter(|(_, p)| p.said.answered > 0)
        {
            for garbage in &kinds {
                fitting += 1;
                let said = String::from_utf8_lossy(garbage)
                    .chars()
                    .take(40)
                    .collect::<String>();
                let here = format!("{place}, {said:?}");
                let broken = at(&here, self.broken(place, Break::Garbage(garbage.clone())).await)?;
                let Some((act, outcome)) = broken else { continue };
                met += 1;
                let before_acting = self.acting.is_some_and(|a| i < a);
                let honest = match &outcome {
                    Outcome::Unknown(_) => true,
                    Outcome::NotSent(_) => before_acting,
                    // Later turns (a farewell) may go wrong without making a heard answer doubtful.
                    _ => self.acting.is_some_and(|a| i > a),
                };
                if !honest {
                    return failed(format!("{here}: {outcome:?}; what cannot be read is no verdict"));
                }
                at(&here, self.trial.aftermath(&act, &outcome, false).await)?;
            }
        }
        tried(fitting, met)
    }

    /// Where the network cuts an answer into packets means nothing.
    async fn in_pieces(&self) -> Result<(), Stop> {
        let (mut fitting, mut met) = (0, 0);
        for place in self.places.iter().filter(|p| p.said.answered > 1) {
            fitting += 1;
            let here = place.to_string();
            let broken = at(&here, self.broken(place, Break::Dribble).await)?;
            let Some((act, outcome)) = broken else { continue };
            met += 1;
            if !matches!(outcome, Outcome::Executed(_) | Outcome::Accepted(_)) {
                return failed(format!(
                    "{here}: the reply was whole, in small pieces, and the answer is {outcome:?}"
                ));
            }
            at(&here, self.trial.aftermath(&act, &outcome, false).await)?;
        }
        tried(fitting, met)
    }

    /// The network says everything twice.
    async fn twice(&self) -> Result<(), Stop> {
        if self.trial.served.contract.identity == Identity::None {
            return not_applicable(
                "identity = none: what arrives twice acts twice, whatever the adapter does",
            );
        }
        let Some(place) = self.acting_place() else {
            return not_applicable("no acting turn was found");
        };
        let broken = at(&place.to_string(), self.broken(place, Break::Duplicate).await)?;
        let Some((act, outcome)) = broken else {
            return tried(1, 0);
        };
        let effects = self.trial.aftermath(&act, &outcome, false).await?;
        judge::one(&effects, "after the request arrived twice").map(|_| ())
    }

    /// The permit is asked right before the bytes that act, not when the call begins.
    async fn too_late_in_the_middle(&self) -> Result<(), Stop> {
        let Some(acting) = self.acting else {
            return not_applicable("no acting turn was found");
        };
        let Some(before) = acting.checked_sub(1).and_then(|i| self.places.get(i)) else {
            return not_applicable("nothing is said before the act's own bytes, where time could pass");
        };
        let act = self.trial.prepare().await?;
        self.line.begin();
        self.line.arm(before.connection, before.turn, Break::Pause);
        let clock = Still::at(self.trial.bench.clock().now());
        let time = async {
            while !self.line.hit() {
                tokio::time::sleep(MOMENT).await;
            }
            let left = act.frozen.not_after.0 - clock.now().0;
            clock.pass_micros(left);
            self.line.release();
            std::future::pending::<()>().await;
        };
        let asked: Arc<dyn Clock> = clock.clone();
        let outcome = tokio::select! {
            outcome = self.trial.execute_by(&act, asked) => outcome?,
            () = time => return failed("time stood still"),
        };
        if !self.line.hit() {
            return tried(1, 0);
        }
        let place = before.to_string();
        let effects = at(&place, self.trial.aftermath(&act, &outcome, false).await)?;
        if !effects.is_empty() || matches!(outcome, Outcome::Executed(_) | Outcome::Accepted(_)) {
            return failed(format!(
                "{place}: the last moment passed while the answer to it was awaited, and the act was sent all the same: {outcome:?}"
            ));
        }
        Ok(())
    }

    /// A daemon that takes over sends the same bytes again, if the contract lets it.
    async fn sent_again(&self) -> Result<(), Stop> {
        if self.trial.served.contract.identity == Identity::None {
            return not_applicable("identity = none: it is never sent again");
        }
        let Some(place) = self.acting_place() else {
            return not_applicable("no acting turn was found");
        };
        for how in [Break::CutBefore, Break::CutReply] {
            let here = format!("{place}, {how:?}");
            let broken = at(&here, self.broken(place, how).await)?;
            let Some((act, first)) = broken else {
                return tried(1, 0);
            };
            at(
                &here,
                judge::outcome(&first, &self.trial.effects(&act).await, judge::AT_ONCE),
            )?;
            self.trial.mend();
            let second = self.trial.execute(&act).await?;
            let effects = at(&here, self.trial.aftermath(&act, &second, false).await)?;
            at(&here, judge::one(&effects, "after it was sent again"))?;
        }
        Ok(())
    }

    /// The request has arrived; before anybody hears of it the counterparty ends, and begins anew with the record it has.
    async fn restarted(&self, how: Break) -> Result<(), Stop> {
        let Some(place) = self.acting_place() else {
            return not_applicable("no acting turn was found");
        };
        let act = self.trial.prepare().await?;
        self.line.begin();
        self.line.arm(place.connection, place.turn, how);
        let sending = self.trial.execute(&act);
        tokio::pin!(sending);
        let early = loop {
            tokio::select! {
                outcome = &mut sending => break Some(outcome?),
                () = tokio::time::sleep(MOMENT) => {}
            }
            // The answer is kept back: the request has been acted on when the record says so, or will be cut short.
            if self.line.hit() && !self.trial.effects(&act).await.is_empty() {
                break None;
            }
        };
        let stopped = self.trial.bench.stop().await;
        let outcome = match early {
            Some(outcome) => outcome,
            None => sending.await?,
        };
        self.trial.bench.start().await;
        if !stopped {
            return not_applicable("the bench's counterparty cannot be taken away");
        }
        if !self.line.hit() {
            return tried(1, 0);
        }
        let here = place.to_string();
        at(&here, self.trial.aftermath(&act, &outcome, false).await).map(|_| ())
    }

    fn acting_place(&self) -> Option<&Place> {
        self.acting.and_then(|i| self.places.get(i))
    }

    /// How many times the frozen body was said since the line was mended last.
    fn times_said(&self, act: &Prepared) -> usize {
        let body = act.frozen.request.body.as_bytes();
        if body.len() < 16 {
            return 0;
        }
        let turns = self.line.conversations().into_iter().flat_map(|c| c.turns);
        turns
            .map(|t| t.said.windows(body.len()).filter(|w| *w == body).count())
            .sum()
    }
}

/// Whether there was anything to break, and it broke.
fn tried(fitting: usize, met: usize) -> Result<(), Stop> {
    match (fitting, met) {
        (0, _) => not_applicable("the conversation has no such place"),
        (_, 0) => failed("the conversation never came to where it was to be broken: nothing was tried"),
        _ => Ok(()),
    }
}
