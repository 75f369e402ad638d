//! Who is calling: a bearer key becomes a [`Caller`].

use wilco_core::{Reason, Refusal};
use wilco_engine::{Caller, Role};

use crate::keys::{KEY_MAX, Principal, RoleName, key_hash};

/// The principals this daemon knows.
pub struct Identity {
    principals: Vec<(Principal, Caller)>,
}

impl Identity {
    /// From the principals of a data folder.
    #[must_use]
    pub fn new(principals: Vec<Principal>) -> Identity {
        let known = principals.into_iter().map(|principal| {
            let caller = Caller {
                name: principal.name.clone(),
                roles: principal.roles.iter().copied().map(role).collect(),
                speaks_for: principal.speaks_for.clone(),
            };
            (principal, caller)
        });
        Identity {
            principals: known.collect(),
        }
    }

    /// The caller a header `authorization: Bearer <key>` proves.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`, the same for no key, a malformed one and an unknown one but for the words about the header.
    pub fn caller(&self, authorization: Option<&[u8]>) -> Result<&Caller, Refusal> {
        let Some(value) = authorization else {
            return Err(unauthenticated(
                "no key was given: send `authorization: Bearer <key>`",
            ));
        };
        let key = match value.split_at_checked(7) {
            Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
            _ => {
                return Err(unauthenticated(
                    "the authorization header must read `Bearer <key>`",
                ));
            }
        };
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(unauthenticated("the key is not known here"));
        }
        let presented = key_hash(key);
        // Every principal is compared, so that the time taken does not tell which one came close.
        let mut found = None;
        for (principal, caller) in &self.principals {
            if principal.proved_by(&presented) {
                found = Some(caller);
            }
        }
        found.ok_or_else(|| unauthenticated("the key is not known here"))
    }
}

fn unauthenticated(text: &str) -> Refusal {
    Refusal::new(Reason::Unauthenticated, text)
}

fn role(name: RoleName) -> Role {
    match name {
        RoleName::Sender => Role::Sender,
        RoleName::Approver => Role::Approver,
        RoleName::Operator => Role::Operator,
        RoleName::Viewer => Role::Viewer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use crate::testing::Folder;

    #[test]
    fn a_key_proves_its_principal_and_nothing_else_does() {
        let folder = Folder::new();
        let identity = Identity::new(keys::principals(folder.path()).expect("made"));
        let text = std::fs::read_to_string(folder.path().join(keys::KEYS_FILE)).expect("reads");
        let known = keys::parse_keys(&text).expect("parses");
        let header = |key: &str| format!("Bearer {key}").into_bytes();

        let caller = identity
            .caller(Some(&header(&known["scheduler"])))
            .expect("known");
        assert!(caller.speaks_for("scheduler") && !caller.speaks_for("release") && !caller.sees_all());
        let caller = identity.caller(Some(&header(&known["duty"]))).expect("known");
        assert!(caller.has(Role::Operator) && !caller.has(Role::Sender));
        assert!(
            identity
                .caller(Some(&[b"bearer ", known["viewer"].as_bytes()].concat()))
                .is_ok()
        );

        let key = &known["scheduler"];
        for bad in [
            None,
            Some(Vec::new()),
            Some(key.clone().into_bytes()),
            Some(header("")),
            Some(header(&key[1..])),
            Some(header(&format!("{key}x"))),
            Some(header(&"x".repeat(10_000))),
            Some(b"Basic abc".to_vec()),
            Some(vec![0xff; 40]),
        ] {
            let refusal = identity.caller(bad.as_deref()).expect_err("not a key");
            assert_eq!(refusal.reason, Reason::Unauthenticated);
            assert!(!refusal.text.contains(key.as_str()));
        }
    }
}
