//! Where a consent or a payment stands, and the words each version of the standard has for it. The book keeps ISO 20022's
//! codes, which 4.0 speaks; 3.1 has fewer words, so it says less.

use crate::obie::{Kind, Version};

/// A consent's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentStatus {
    /// Waits for the account holder.
    AwaitingAuthorisation,
    /// May be used by one payment.
    Authorised,
    /// The account holder said no.
    Rejected,
    /// Its payment exists.
    Consumed,
}

impl ConsentStatus {
    const ALL: [Self; 4] = [
        Self::AwaitingAuthorisation,
        Self::Authorised,
        Self::Rejected,
        Self::Consumed,
    ];

    /// The word of 3.1, and of the book.
    pub const fn word(self) -> &'static str {
        self.word_in(Version::V3)
    }

    /// The word on the wire.
    pub const fn word_in(self, version: Version) -> &'static str {
        match (version, self) {
            (Version::V3, Self::AwaitingAuthorisation) => "AwaitingAuthorisation",
            (Version::V3, Self::Authorised) => "Authorised",
            (Version::V3, Self::Rejected) => "Rejected",
            (Version::V3, Self::Consumed) => "Consumed",
            (Version::V4, Self::AwaitingAuthorisation) => "AWAU",
            (Version::V4, Self::Authorised) => "AUTH",
            (Version::V4, Self::Rejected) => "RJCT",
            (Version::V4, Self::Consumed) => "COND",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }
}

/// A payment's status (ISO 20022, ExternalPaymentTransactionStatus1Code).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentStatus {
    /// Received; a scheduled order stands and waits for its day.
    Received,
    /// Checks are outstanding.
    Pending,
    /// Its form is right.
    TechnicalValidation,
    /// Others must authorise it too.
    PartiallyAuthorised,
    /// The customer may do this.
    CustomerProfile,
    /// The money is there.
    FundsChecked,
    /// On its way.
    InProcess,
    /// On its way with something changed.
    WithChange,
    /// Debited.
    Completed,
    /// Accepted, not yet posted at the creditor.
    WithoutPosting,
    /// Credited.
    Credited,
    /// Neither posted nor returned.
    Blocked,
    /// Not paid, or paid and taken back.
    Rejected,
    /// A scheduled order that was withdrawn before its day.
    Cancelled,
}

impl PaymentStatus {
    /// Every status.
    pub const ALL: [Self; 14] = [
        Self::Received,
        Self::Pending,
        Self::TechnicalValidation,
        Self::PartiallyAuthorised,
        Self::CustomerProfile,
        Self::FundsChecked,
        Self::InProcess,
        Self::WithChange,
        Self::Completed,
        Self::WithoutPosting,
        Self::Credited,
        Self::Blocked,
        Self::Rejected,
        Self::Cancelled,
    ];

    /// ISO's code, 4.0's word and the book's.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Received => "RCVD",
            Self::Pending => "PDNG",
            Self::TechnicalValidation => "ACTC",
            Self::PartiallyAuthorised => "PATC",
            Self::CustomerProfile => "ACCP",
            Self::FundsChecked => "ACFC",
            Self::InProcess => "ACSP",
            Self::WithChange => "ACWC",
            Self::Completed => "ACSC",
            Self::WithoutPosting => "ACWP",
            Self::Credited => "ACCC",
            Self::Blocked => "BLCK",
            Self::Rejected => "RJCT",
            Self::Cancelled => "CANC",
        }
    }

    /// Reads [`PaymentStatus::code`].
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The word on the wire.
    pub const fn word_in(self, version: Version, kind: Kind) -> &'static str {
        match (version, kind) {
            (Version::V4, _) => self.code(),
            (Version::V3, Kind::Domestic) => match self {
                Self::Received
                | Self::Pending
                | Self::TechnicalValidation
                | Self::PartiallyAuthorised
                | Self::CustomerProfile
                | Self::FundsChecked => "Pending",
                Self::InProcess | Self::WithChange => "AcceptedSettlementInProcess",
                Self::Completed => "AcceptedSettlementCompleted",
                Self::WithoutPosting => "AcceptedWithoutPosting",
                Self::Credited => "AcceptedCreditSettlementCompleted",
                Self::Blocked | Self::Rejected | Self::Cancelled => "Rejected",
            },
            // 3.1 tells of the order only, not of the payment that is made from it.
            (Version::V3, Kind::Scheduled) => match self {
                Self::Pending | Self::PartiallyAuthorised => "InitiationPending",
                Self::Blocked | Self::Rejected => "InitiationFailed",
                Self::Cancelled => "Cancelled",
                _ => "InitiationCompleted",
            },
        }
    }

    /// Whether nothing comes after it.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Rejected | Self::Cancelled)
    }
}

/// A status as the hand that moves payments names it: by ISO's code or by a word of 3.1.
#[derive(Debug, Clone, Copy)]
pub struct Named(pub &'static str, pub PaymentStatus);

impl Named {
    /// Every name.
    pub const ALL: [Self; 24] = [
        Self("Pending", PaymentStatus::Pending),
        Self("Rejected", PaymentStatus::Rejected),
        Self("AcceptedSettlementInProcess", PaymentStatus::InProcess),
        Self("AcceptedSettlementCompleted", PaymentStatus::Completed),
        Self("AcceptedWithoutPosting", PaymentStatus::WithoutPosting),
        Self("AcceptedCreditSettlementCompleted", PaymentStatus::Credited),
        Self("InitiationPending", PaymentStatus::Pending),
        Self("InitiationFailed", PaymentStatus::Rejected),
        Self("InitiationCompleted", PaymentStatus::Received),
        Self("Cancelled", PaymentStatus::Cancelled),
        Self("RCVD", PaymentStatus::Received),
        Self("PDNG", PaymentStatus::Pending),
        Self("ACTC", PaymentStatus::TechnicalValidation),
        Self("PATC", PaymentStatus::PartiallyAuthorised),
        Self("ACCP", PaymentStatus::CustomerProfile),
        Self("ACFC", PaymentStatus::FundsChecked),
        Self("ACSP", PaymentStatus::InProcess),
        Self("ACWC", PaymentStatus::WithChange),
        Self("ACSC", PaymentStatus::Completed),
        Self("ACWP", PaymentStatus::WithoutPosting),
        Self("ACCC", PaymentStatus::Credited),
        Self("BLCK", PaymentStatus::Blocked),
        Self("RJCT", PaymentStatus::Rejected),
        Self("CANC", PaymentStatus::Cancelled),
    ];

    /// The name itself.
    pub fn name(self) -> &'static str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_one_word_for_each_status() {
        for status in PaymentStatus::ALL {
            assert_eq!(PaymentStatus::from_code(status.code()), Some(status));
            for named in Named::ALL {
                if named.1 == status && named.0.len() == 4 {
                    assert_eq!(named.0, status.word_in(Version::V4, Kind::Domestic));
                }
            }
        }
        let three = |status: PaymentStatus, kind| status.word_in(Version::V3, kind);
        assert_eq!(three(PaymentStatus::Received, Kind::Domestic), "Pending");
        assert_eq!(
            three(PaymentStatus::Received, Kind::Scheduled),
            "InitiationCompleted"
        );
        assert_eq!(three(PaymentStatus::Cancelled, Kind::Scheduled), "Cancelled");
        assert_eq!(ConsentStatus::Consumed.word_in(Version::V4), "COND");
    }
}
