//! The world a new lab starts with. Only an empty book is seeded; an existing one is never touched.

/// An account of the company whose bank this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnAccount {
    /// `20-00-00/55779911`
    pub account: String,
    /// The holder.
    pub name: String,
    /// Opening balance in pence, booked against the account `opening`.
    pub opening_minor: i64,
}

/// A payee of the register, or another holder of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payee {
    /// Short name used in handoffs, for example `marlow`.
    pub sup: String,
    /// The holder.
    pub name: String,
    /// `40-12-88/61102938`
    pub account: String,
}

/// What exists before the first order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// Accounts that can pay; the first one pays when an order names none.
    pub own: Vec<OwnAccount>,
    /// The payee register.
    pub payees: Vec<Payee>,
    /// Holders (name, account) of accounts known to confirmation of payee but not in the register.
    pub strangers: Vec<(String, String)>,
}

impl Default for World {
    /// Meridian Works Ltd and its suppliers, with one stranger whose account is a slip of the pen away from
    /// Marlow's.
    fn default() -> Self {
        let payee = |sup: &str, name: &str, account: &str| Payee {
            sup: sup.into(),
            name: name.into(),
            account: account.into(),
        };
        Self {
            own: vec![OwnAccount {
                account: "20-00-00/55779911".into(),
                name: "Meridian Works Ltd".into(),
                opening_minor: 2_500_000_000,
            }],
            payees: vec![
                payee("marlow", "Marlow Supplies Ltd", "40-12-88/61102938"),
                payee("northfield", "Northfield Logistics Ltd", "30-94-21/20417765"),
                payee("harrow", "Harrow Print & Paper LLP", "60-08-15/83350416"),
                payee("castell", "Castell Tooling Ltd", "09-01-28/44170952"),
            ],
            strangers: vec![("Dalton Freight Ltd".into(), "40-12-88/61102983".into())],
        }
    }
}
