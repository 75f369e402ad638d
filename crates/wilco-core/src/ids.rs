//! The act's id, which is also the reference given to the counterparty.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Timestamp;

/// A UUIDv7 (RFC 9562 §5.7) written as 32 lower-case hex digits.
///
/// Time-ordered, so that the store needs no random index, and short enough for the 35 characters ISO 20022 and Open
/// Banking allow a reference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActId([u8; 16]);

impl ActId {
    /// The id of an act that arrived at `at`, made unique by ten random bytes.
    #[must_use]
    pub fn new(at: Timestamp, random: [u8; 10]) -> ActId {
        let millis = u64::try_from(at.0.max(0) / 1_000).unwrap_or(0).to_be_bytes();
        let mut bytes = [0u8; 16];
        bytes[..6].copy_from_slice(&millis[2..]);
        bytes[6..].copy_from_slice(&random);
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        ActId(bytes)
    }

    /// The id's random bits as a number, from which long message ids are made.
    #[must_use]
    pub fn random_bits(self) -> u64 {
        let mut low = [0u8; 8];
        low.copy_from_slice(&self.0[8..]);
        u64::from_be_bytes(low) & 0x3fff_ffff_ffff_ffff
    }

    /// The sixteen bytes, for keys and hashes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ActId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for ActId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActId({self})")
    }
}

/// The text is not 32 lower-case hex digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("an act id is 32 lower-case hex digits")]
pub struct NotAnActId;

impl FromStr for ActId {
    type Err = NotAnActId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = data_encoding::HEXLOWER
            .decode(text.as_bytes())
            .map_err(|_| NotAnActId)?;
        Ok(ActId(bytes.try_into().map_err(|_| NotAnActId)?))
    }
}

impl Serialize for ActId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ActId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_survive_the_text_form() {
        let early = ActId::new(Timestamp(1_000_000), [0xff; 10]);
        let late = ActId::new(Timestamp(2_000_000), [0; 10]);
        assert!(early < late);
        assert!(early.to_string() < late.to_string());
        assert_eq!(early.to_string().parse(), Ok(early));
        assert_eq!(early.to_string().len(), 32);
        assert_eq!(&early.to_string()[12..13], "7");
    }

    #[test]
    fn upper_case_and_other_lengths_are_refused() {
        assert_eq!("AB".parse::<ActId>(), Err(NotAnActId));
        assert_eq!("0".repeat(33).parse::<ActId>(), Err(NotAnActId));
        assert_eq!("A".repeat(32).parse::<ActId>(), Err(NotAnActId));
    }
}
