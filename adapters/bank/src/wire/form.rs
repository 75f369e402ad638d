//! Which version of the standard an act is spoken in and which kind of payment it is, and what follows from that: paths,
//! status words, contexts. A form is frozen with the act, in the path of its request: an act prepared in one version is
//! finished in it, whatever the configuration says by then.

/// A version of OBIE Read/Write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// 3.1
    V3,
    /// 4.0
    V4,
}

/// When the bank is to move the money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At once.
    Domestic,
    /// On a day to come.
    Scheduled,
}

/// The form of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub version: Version,
    pub kind: Kind,
}

/// From which of the bank's words on a payment counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DoneAt {
    /// Accepted for execution: settlement is in process.
    InProcess,
    /// Settled on the account that pays.
    Settled,
}

/// What a consent's status word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConsentStanding {
    Awaiting,
    Authorised,
    Rejected,
    Consumed,
    Unlisted,
}

/// What a payment's status word means for the act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Done; `provisional` if the bank may still reject it.
    Executed { provisional: bool },
    /// Taken on, not far enough to be called done.
    Accepted,
    /// Not done, and not going to be.
    Rejected,
    /// The money is neither where it was nor where it should be: only people can say what that is worth.
    Blocked,
    /// A word the version does not list.
    Unlisted,
}

impl Version {
    pub const ALL: [Version; 2] = [Version::V3, Version::V4];

    /// As the configuration says it.
    pub fn word(self) -> &'static str {
        match self {
            Version::V3 => "3.1",
            Version::V4 => "4.0",
        }
    }

    /// What stands between a bank's base URL and its resources.
    fn prefix(self) -> &'static str {
        match self {
            Version::V3 => "/open-banking/v3.1/pisp",
            Version::V4 => "/open-banking/v4.0/pisp",
        }
    }

    /// What `Risk.PaymentContextCode` may say; the first is the one for paying a supplier's bill.
    pub fn contexts(self) -> &'static [&'static str] {
        match self {
            Version::V3 => &[
                "BillPayment",
                "EcommerceGoods",
                "EcommerceServices",
                "Other",
                "PartyToParty",
            ],
            Version::V4 => &[
                "BillingGoodsAndServicesInArrears",
                "BillingGoodsAndServicesInAdvance",
                "EcommerceMerchantInitiatedPayment",
                "FaceToFacePointOfSale",
                "TransferToSelf",
                "TransferToThirdParty",
            ],
        }
    }

    pub fn consent_standing(self, word: &str) -> ConsentStanding {
        match (self, word) {
            (Version::V3, "AwaitingAuthorisation") | (Version::V4, "AWAU") => ConsentStanding::Awaiting,
            (Version::V3, "Authorised") | (Version::V4, "AUTH") => ConsentStanding::Authorised,
            (Version::V3, "Rejected") | (Version::V4, "RJCT") => ConsentStanding::Rejected,
            (Version::V3, "Consumed") | (Version::V4, "COND") => ConsentStanding::Consumed,
            _ => ConsentStanding::Unlisted,
        }
    }
}

impl Form {
    /// Every form.
    const ALL: [Form; 4] = {
        const fn form(version: Version, kind: Kind) -> Form {
            Form { version, kind }
        }
        [
            form(Version::V3, Kind::Domestic),
            form(Version::V3, Kind::Scheduled),
            form(Version::V4, Kind::Domestic),
            form(Version::V4, Kind::Scheduled),
        ]
    };

    /// Where its consents are placed and read, from the bank's base URL on.
    pub fn consents(self) -> String {
        let resource = match self.kind {
            Kind::Domestic => "/domestic-payment-consents",
            Kind::Scheduled => "/domestic-scheduled-payment-consents",
        };
        format!("{}{resource}", self.version.prefix())
    }

    /// Where its payments are ordered and read.
    pub fn payments(self) -> String {
        let resource = match self.kind {
            Kind::Domestic => "/domestic-payments",
            Kind::Scheduled => "/domestic-scheduled-payments",
        };
        format!("{}{resource}", self.version.prefix())
    }

    /// The form of a frozen act. Before there were forms, the path was frozen without the version, which was 3.1.
    pub fn of_path(path: &str) -> Option<Form> {
        let full = format!("{}{path}", Version::V3.prefix());
        Form::ALL
            .into_iter()
            .find(|form| [path, &full].contains(&form.payments().as_str()))
    }

    /// The field a payment's id stands in.
    pub(super) fn payment_id(self) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Domestic => ("DomesticPaymentId", "Data.DomesticPaymentId"),
            Kind::Scheduled => ("DomesticScheduledPaymentId", "Data.DomesticScheduledPaymentId"),
        }
    }

    /// What a payment's status word means. A word of another version or kind is unlisted: it is not for us to guess.
    pub fn standing(self, word: &str, done_at: DoneAt) -> Standing {
        match (self.version, self.kind) {
            (Version::V3, Kind::Domestic) => domestic_3(word, done_at),
            (Version::V3, Kind::Scheduled) => scheduled_3(word),
            (Version::V4, Kind::Domestic) => domestic_4(word, done_at),
            (Version::V4, Kind::Scheduled) => scheduled_4(word),
        }
    }
}

const DONE: Standing = Standing::Executed { provisional: false };
const DONE_FOR_NOW: Standing = Standing::Executed { provisional: true };

/// OBIE R/W 3.1, `OBTransactionIndividualStatus1Code`. Rejected may still follow on settlement in process, and on
/// AcceptedWithoutPosting, with which the payee's bank speaks.
fn domestic_3(word: &str, done_at: DoneAt) -> Standing {
    match (word, done_at) {
        ("AcceptedSettlementInProcess", DoneAt::InProcess) | ("AcceptedWithoutPosting", _) => DONE_FOR_NOW,
        ("AcceptedSettlementCompleted" | "AcceptedCreditSettlementCompleted", _) => DONE,
        ("Pending" | "AcceptedSettlementInProcess", _) => Standing::Accepted,
        ("Rejected", _) => Standing::Rejected,
        _ => Standing::Unlisted,
    }
}

/// OBIE R/W 4.0, `ExternalPaymentTransactionStatus1Code`: what the payee's bank says comes after ACSC, and may be that it
/// rejects. With ACWC the bank announces a change and does not say which, so that is not called done.
fn domestic_4(word: &str, done_at: DoneAt) -> Standing {
    match (word, done_at) {
        ("ACSP", DoneAt::InProcess) | ("ACSC" | "ACWP", _) => DONE_FOR_NOW,
        ("ACCC", _) => DONE,
        ("RCVD" | "PDNG" | "ACTC" | "PATC" | "ACCP" | "ACFC" | "ACSP" | "ACWC", _) => Standing::Accepted,
        ("RJCT", _) => Standing::Rejected,
        ("BLCK", _) => Standing::Blocked,
        _ => Standing::Unlisted,
    }
}

/// OBIE R/W 3.1, `OBExternalStatus1Code`. These words tell of the order and never of the payment made from it: done means
/// that the order stands, and what comes of it on its day is another matter.
fn scheduled_3(word: &str) -> Standing {
    match word {
        "InitiationCompleted" => DONE_FOR_NOW,
        "InitiationPending" => Standing::Accepted,
        "InitiationFailed" | "Cancelled" => Standing::Rejected,
        _ => Standing::Unlisted,
    }
}

/// OBIE R/W 4.0: an order waits for its day as RCVD, from which alone it can be cancelled; PATC waits for other people.
fn scheduled_4(word: &str) -> Standing {
    match word {
        "RCVD" | "ACTC" | "ACCP" | "ACFC" | "ACSP" | "ACWC" | "ACSC" | "ACWP" => DONE_FOR_NOW,
        "ACCC" => DONE,
        "PDNG" | "PATC" => Standing::Accepted,
        "RJCT" | "CANC" => Standing::Rejected,
        "BLCK" => Standing::Blocked,
        _ => Standing::Unlisted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(version: Version, kind: Kind) -> Form {
        Form { version, kind }
    }

    /// Each row: a word, and what it means where done begins in process and where it begins settled.
    fn table(form: Form, rows: &[(&str, Standing, Standing)]) {
        for (word, in_process, settled) in rows {
            assert_eq!(
                form.standing(word, DoneAt::InProcess),
                *in_process,
                "{form:?} {word}"
            );
            assert_eq!(form.standing(word, DoneAt::Settled), *settled, "{form:?} {word}");
        }
    }

    use Standing::{Accepted, Blocked, Rejected, Unlisted};

    #[test]
    fn only_listed_words_mean_something_3_1() {
        table(
            form(Version::V3, Kind::Domestic),
            &[
                ("Pending", Accepted, Accepted),
                ("AcceptedSettlementInProcess", DONE_FOR_NOW, Accepted),
                ("AcceptedSettlementCompleted", DONE, DONE),
                ("AcceptedWithoutPosting", DONE_FOR_NOW, DONE_FOR_NOW),
                ("AcceptedCreditSettlementCompleted", DONE, DONE),
                ("Rejected", Rejected, Rejected),
                ("rejected", Unlisted, Unlisted),
                ("ACSC", Unlisted, Unlisted),
                ("InitiationCompleted", Unlisted, Unlisted),
                ("", Unlisted, Unlisted),
            ],
        );
        table(
            form(Version::V3, Kind::Scheduled),
            &[
                ("InitiationPending", Accepted, Accepted),
                ("InitiationCompleted", DONE_FOR_NOW, DONE_FOR_NOW),
                ("InitiationFailed", Rejected, Rejected),
                ("Cancelled", Rejected, Rejected),
                ("AcceptedSettlementCompleted", Unlisted, Unlisted),
                ("RCVD", Unlisted, Unlisted),
            ],
        );
    }

    #[test]
    fn only_listed_words_mean_something_4_0() {
        let mut rows = vec![
            ("ACSP", DONE_FOR_NOW, Accepted),
            ("ACSC", DONE_FOR_NOW, DONE_FOR_NOW),
            ("ACWP", DONE_FOR_NOW, DONE_FOR_NOW),
            ("ACCC", DONE, DONE),
            ("RJCT", Rejected, Rejected),
            ("BLCK", Blocked, Blocked),
            ("CANC", Unlisted, Unlisted),
            ("AcceptedSettlementCompleted", Unlisted, Unlisted),
            ("Rejected", Unlisted, Unlisted),
        ];
        for word in ["RCVD", "PDNG", "ACTC", "PATC", "ACCP", "ACFC", "ACWC"] {
            rows.push((word, Accepted, Accepted));
        }
        table(form(Version::V4, Kind::Domestic), &rows);
        let mut rows = vec![
            ("ACCC", DONE, DONE),
            ("PDNG", Accepted, Accepted),
            ("PATC", Accepted, Accepted),
            ("RJCT", Rejected, Rejected),
            ("CANC", Rejected, Rejected),
            ("BLCK", Blocked, Blocked),
            ("InitiationCompleted", Unlisted, Unlisted),
        ];
        for word in ["RCVD", "ACTC", "ACCP", "ACFC", "ACSP", "ACWC", "ACSC", "ACWP"] {
            rows.push((word, DONE_FOR_NOW, DONE_FOR_NOW));
        }
        table(form(Version::V4, Kind::Scheduled), &rows);
    }

    #[test]
    fn a_consents_word_belongs_to_its_version() {
        for (three, four, standing) in [
            ("AwaitingAuthorisation", "AWAU", ConsentStanding::Awaiting),
            ("Authorised", "AUTH", ConsentStanding::Authorised),
            ("Rejected", "RJCT", ConsentStanding::Rejected),
            ("Consumed", "COND", ConsentStanding::Consumed),
        ] {
            assert_eq!(Version::V3.consent_standing(three), standing);
            assert_eq!(Version::V4.consent_standing(four), standing);
            assert_eq!(Version::V3.consent_standing(four), ConsentStanding::Unlisted);
            assert_eq!(Version::V4.consent_standing(three), ConsentStanding::Unlisted);
        }
        assert_eq!(Version::V4.consent_standing("EXPD"), ConsentStanding::Unlisted);
    }

    #[test]
    fn a_frozen_path_says_the_form() {
        for one in Form::ALL {
            assert_eq!(Form::of_path(&one.payments()), Some(one));
            assert_eq!(
                Form::of_path(&one.consents()),
                None,
                "no payment is ordered there"
            );
        }
        let before_forms = form(Version::V3, Kind::Domestic);
        assert_eq!(Form::of_path("/domestic-payments"), Some(before_forms));
        assert_eq!(Form::of_path("/open-banking/v5.0/pisp/domestic-payments"), None);
    }
}
