//! Tokens: `<act_id>.<attempt>.<secret>`.
//!
//! The secret is 160 bits in lower-case base32, derived by HMAC-SHA-256 (RFC 2104) from a server key, the act and the
//! attempt. So a lost answer can be given again byte for byte, although only the token's hash rests in the store: who
//! reads the store without the server key learns no token.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::ActId;

/// A server key and the id under which acts name it. Old keys stay while an act uses them.
#[derive(Clone)]
pub struct TokenKey {
    /// Names the key in the act's row; at most 16 characters.
    pub id: String,
    /// 32 secret bytes.
    pub secret: [u8; 32],
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKey({})", self.id)
    }
}

/// A token taken apart. Its `Debug` form hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The act it belongs to.
    pub act_id: ActId,
    /// Which of the act's statements it confirms, from 1.
    pub attempt: u32,
    secret: String,
}

const SECRET_BYTES: usize = 20;
const SECRET_CHARS: usize = 32;

impl Token {
    /// The token of an act's attempt under a server key. Always the same for the same three.
    #[must_use]
    pub fn derive(key: &TokenKey, act_id: ActId, attempt: u32) -> Token {
        let mut mac =
            <Hmac<Sha256> as KeyInit>::new_from_slice(&key.secret).unwrap_or_else(|_| unreachable_key());
        mac.update(b"wilco token 1\0");
        mac.update(act_id.as_bytes());
        mac.update(&attempt.to_be_bytes());
        let tag = mac.finalize().into_bytes();
        let secret = data_encoding::BASE32_NOPAD
            .encode(&tag[..SECRET_BYTES])
            .to_ascii_lowercase();
        Token {
            act_id,
            attempt,
            secret,
        }
    }

    /// Takes a token apart; `None` for anything that is not one. Says nothing about whether it was ever given out.
    #[must_use]
    pub fn parse(text: &str) -> Option<Token> {
        let mut parts = text.split('.');
        let (act, attempt, secret) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || attempt.len() > 9 || attempt.starts_with('0') {
            return None;
        }
        let well_formed = |c: u8| c.is_ascii_lowercase() || (b'2'..=b'7').contains(&c);
        if !attempt.bytes().all(|b| b.is_ascii_digit())
            || secret.len() != SECRET_CHARS
            || !secret.bytes().all(well_formed)
        {
            return None;
        }
        Some(Token {
            act_id: act.parse().ok()?,
            attempt: attempt.parse().ok()?,
            secret: secret.to_owned(),
        })
    }

    /// The token as the caller holds it. Never log it.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{}.{}.{}", self.act_id, self.attempt, self.secret)
    }

    /// What rests in the store: the hex SHA-256 of the token's text.
    #[must_use]
    pub fn hash(&self) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(self.reveal().as_bytes()))
    }

    /// Whether `stored` is this token's hash, compared in constant time.
    #[must_use]
    pub fn matches(&self, stored: &str) -> bool {
        self.hash().as_bytes().ct_eq(stored.as_bytes()).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({}.{}.…)", self.act_id, self.attempt)
    }
}

// HMAC takes keys of any length (RFC 2104 §2), so this arm is never reached; it keeps the path free of a panic that
// depends on input.
fn unreachable_key() -> Hmac<Sha256> {
    <Hmac<Sha256> as KeyInit>::new(&Default::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn key() -> TokenKey {
        TokenKey {
            id: "k1".into(),
            secret: [7; 32],
        }
    }

    #[test]
    fn the_same_act_and_attempt_give_the_same_token() {
        let act = ActId::new(Timestamp(5_000_000), [1; 10]);
        let token = Token::derive(&key(), act, 1);
        assert_eq!(token, Token::derive(&key(), act, 1));
        assert_eq!(Token::parse(&token.reveal()), Some(token.clone()));
        assert!(token.matches(&token.hash()));
        assert!(!token.matches(&Token::derive(&key(), act, 2).hash()));
        let other = TokenKey {
            id: "k2".into(),
            secret: [8; 32],
        };
        assert_ne!(token, Token::derive(&other, act, 1));
        assert!(!format!("{token:?}").contains(&token.secret));
    }

    #[test]
    fn garbage_is_no_token() {
        let act = ActId::new(Timestamp(5_000_000), [1; 10]);
        let good = Token::derive(&key(), act, 1).reveal();
        for bad in [
            "",
            "..",
            "a.b.c",
            &good[1..],
            &format!("{good}.x"),
            &good.to_uppercase(),
            &good.replace(".1.", ".01."),
        ] {
            assert_eq!(Token::parse(bad), None, "{bad}");
        }
    }
}
