//! Which version of the standard and which kind of payment a request is about, and the words each has. Pure.

/// A version of UK Open Banking Read/Write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 3.1
    V3,
    /// 4.0
    V4,
}

impl Version {
    /// Every version.
    pub const ALL: [Self; 2] = [Self::V3, Self::V4];

    /// Where its payment initiation API stands.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::V3 => "/open-banking/v3.1/pisp",
            Self::V4 => "/open-banking/v4.0/pisp",
        }
    }

    /// Its name in the book.
    pub const fn word(self) -> &'static str {
        match self {
            Self::V3 => "3.1",
            Self::V4 => "4.0",
        }
    }

    /// Reads [`Version::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.word() == word)
    }

    /// What `Risk.PaymentContextCode` may say.
    pub const fn contexts(self) -> &'static [&'static str] {
        match self {
            Self::V3 => &[
                "BillPayment",
                "EcommerceGoods",
                "EcommerceServices",
                "Other",
                "PartyToParty",
            ],
            Self::V4 => &[
                "BillingGoodsAndServicesInAdvance",
                "BillingGoodsAndServicesInArrears",
                "EcommerceMerchantInitiatedPayment",
                "FaceToFacePointOfSale",
                "TransferToSelf",
                "TransferToThirdParty",
            ],
        }
    }

    /// An error's code in this version: 3.1 spells it out, 4.0 has four characters for it (`OBExternalStatusReason1Code`).
    pub fn error_code(self, code: &str) -> &str {
        match self {
            Self::V3 => code,
            Self::V4 => V4_CODES
                .iter()
                .find(|(_, name)| *name == code)
                .map_or(V4_OTHER, |(short, _)| short),
        }
    }
}

/// 4.0's code for an error that has no other.
const V4_OTHER: &str = "U000";

const V4_CODES: [(&str, &str); 21] = [
    ("U000", "UK.OBIE.UnexpectedError"),
    ("U002", "UK.OBIE.Field.Invalid"),
    ("U003", "UK.OBIE.Field.InvalidDate"),
    ("U004", "UK.OBIE.Field.Missing"),
    ("U005", "UK.OBIE.Field.Unexpected"),
    ("U006", "UK.OBIE.Header.Invalid"),
    ("U007", "UK.OBIE.Header.Missing"),
    ("U008", "UK.OBIE.Resource.ConsentMismatch"),
    ("U009", "UK.OBIE.Resource.InvalidConsentStatus"),
    ("U010", "UK.OBIE.Resource.InvalidFormat"),
    ("U011", "UK.OBIE.Resource.NotFound"),
    ("U012", "UK.OBIE.Rules.AfterCutOffDateTime"),
    ("U014", "UK.OBIE.Rules.FailsControlParameters"),
    ("U015", "UK.OBIE.Signature.Invalid"),
    ("U016", "UK.OBIE.Signature.InvalidClaim"),
    ("U017", "UK.OBIE.Signature.MissingClaim"),
    ("U018", "UK.OBIE.Signature.Malformed"),
    ("U019", "UK.OBIE.Signature.Missing"),
    ("U021", "UK.OBIE.Unsupported.AccountIdentifier"),
    ("U023", "UK.OBIE.Unsupported.Currency"),
    ("U027", "UK.OBIE.Unsupported.Scheme"),
];

/// When the money is to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// At once: `domestic-payments`.
    Domestic,
    /// On a day to come: `domestic-scheduled-payments`.
    Scheduled,
}

impl Kind {
    /// Its name in the book.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Domestic => "domestic",
            Self::Scheduled => "scheduled",
        }
    }

    /// Reads [`Kind::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Domestic, Self::Scheduled]
            .into_iter()
            .find(|kind| kind.word() == word)
    }
}

/// What a body must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The version it is written in.
    pub version: Version,
    /// What it asks for.
    pub kind: Kind,
}

impl Form {
    /// The oldest and simplest: 3.1, at once.
    #[cfg(test)]
    pub const PLAIN: Self = Self {
        version: Version::V3,
        kind: Kind::Domestic,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_characters_stand_for_each_code_the_lab_knows() {
        assert_eq!(
            Version::V3.error_code("UK.OBIE.Field.Missing"),
            "UK.OBIE.Field.Missing"
        );
        assert_eq!(Version::V4.error_code("UK.OBIE.Field.Missing"), "U004");
        assert_eq!(
            Version::V4.error_code("UK.OBIE.Resource.InvalidConsentStatus"),
            "U009"
        );
        assert_eq!(Version::V4.error_code("UK.OBIE.Of.Nobody"), "U000");
    }
}
