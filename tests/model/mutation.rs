//! The engine's rules, broken one at a time.

/// One rule of the engine broken, to see that a property notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// The call starts without its claim having been written.
    DropTheClaim,
    /// The store writes whatever the row's version.
    ForgetVersions,
    /// News changes the state whoever brings it.
    SkipTheFence,
    /// One lookup that finds nothing proves absence.
    OneLookupProves,
    /// A lookup counts as of when it was answered, not of when it was asked.
    AskedWhenAnswered,
    /// What has expired is refused before it is looked whether it was answered already.
    ExpiryBeforeReplay,
    /// A cancel that comes before its handoff is acknowledged and forgotten.
    ForgetTheTombstone,
    /// The same bytes are sent again although the counterparty enforces nothing.
    ResendWithoutIdentity,
    /// The same bytes are sent again under a key that is forgotten before what was paused comes.
    TrustAForgottenKey,
    /// A silent owner counts as a dead one.
    SilentIsDead,
    /// The caller hears what the counterparty said before it is written.
    AnswerBeforeTheWrite,
    /// The last moment is not looked at before the bytes leave.
    SendAfterTheLastMoment,
    /// The confirmation is judged by a clock read before the write.
    ClockBeforeTheLock,
    /// The token alone confirms.
    BareTokenPays,
    /// A refusal of one sending speaks for an earlier owner's as well.
    RefusalSpeaksForAll,
    /// What the counterparty has taken on counts as done.
    AcceptedIsDone,
    /// A lookup that finds nothing is not kept.
    ForgetTheLookups,
    /// A cancel enters the thread when it arrives, not when it is answered.
    CancelEntersAtOnce,
}
