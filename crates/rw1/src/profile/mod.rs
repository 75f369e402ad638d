//! Profiles: the core vocabulary, and the vocabularies that extend it for one kind of work (RW1 specification §7).
//!
//! A profile is compiled once, from its JSON text, into tables that a line is checked against without copying or
//! building anything. What the texts may say, and what is refused, is in `load.rs`.

mod file;
mod legend;
mod load;

use std::sync::{Arc, OnceLock};

pub use file::ProfileError;
pub use legend::legend;

use crate::kind::Kind;
use crate::problem::{Code, Problem};

/// The core and the named profiles, compiled. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Profiles(Arc<Registry>);

#[derive(Debug)]
struct Registry {
    core: Profile,
    /// Sorted by name.
    named: Vec<Profile>,
}

impl Profiles {
    /// The profiles in the binary: core, `pay`, `deploy`, `mail`, `clin`, `pform`. They are compiled once and shared.
    pub fn builtin() -> Profiles {
        static BUILTIN: OnceLock<Profiles> = OnceLock::new();
        let texts = || {
            load::BUILTIN
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        };
        let compile = || match Profiles::from_texts(texts()) {
            Ok(profiles) => profiles,
            // Cannot happen: the texts are part of the binary, and a test loads them.
            Err(e) => unreachable!("a profile in the binary does not load: {e}"),
        };
        BUILTIN.get_or_init(compile).clone()
    }

    /// Compiles the files of a folder: pairs of a name (the file's stem) and its JSON text. A text named `core`
    /// replaces the core in the binary; nothing else in the binary is added.
    ///
    /// # Errors
    /// The first text that is not a profile, with its name and the rule it breaks.
    pub fn from_texts<I: IntoIterator<Item = (String, String)>>(texts: I) -> Result<Profiles, ProfileError> {
        load::registry(texts.into_iter().collect()).map(|r| Profiles(Arc::new(r)))
    }

    /// A named profile (merged with the core).
    pub fn get(&self, name: &str) -> Option<&Profile> {
        let at = self.0.named.binary_search_by(|p| p.name().cmp(name)).ok()?;
        self.0.named.get(at)
    }

    /// The core alone: what a line without `p=` may use.
    pub fn core(&self) -> &Profile {
        &self.0.core
    }

    /// The names of the profiles, sorted, without the core.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.named.iter().map(Profile::name)
    }

    /// The named profile, the core when no name is given, or the finding that there is none such.
    pub fn find(&self, name: Option<&str>) -> Result<&Profile, Problem> {
        match name {
            None => Ok(self.core()),
            Some(name) => self.get(name).ok_or_else(|| self.unknown(name)),
        }
    }

    pub(crate) fn unknown(&self, name: &str) -> Problem {
        let known: Vec<&str> = self.names().collect();
        Problem::new(
            Code::UnknownProfile,
            format!(
                "unknown profile '{name}'; loaded are: {}",
                if known.is_empty() {
                    "none".into()
                } else {
                    known.join(" ")
                }
            ),
        )
        .slot("p")
        .got(name)
    }
}

/// How close two acts must be to be taken for one asked twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// The slots (or `item`) that are compared.
    pub slots: Vec<String>,
    /// How far back to look.
    pub span: Span,
}

/// The reach of a [`Likeness`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Open acts, and those done within so many days.
    Days(u32),
    /// Open acts only.
    OpenOnly,
}

/// The core merged with one profile (or the core alone), compiled.
#[derive(Debug)]
pub struct Profile {
    name: String,
    version: String,
    digest: String,
    is_core: bool,
    /// In the order of the specification: it is the order `encode` writes them in.
    slots: Vec<SlotDef>,
    lookup: Lookup,
    enums: Vec<EnumDef>,
    kinds: Vec<KindDef>,
    agents: Option<Vec<String>>,
    exec: Vec<(String, Vec<String>)>,
    undo: Vec<(String, Vec<String>)>,
    /// The place of the first slot that is not the core's.
    own_from: usize,
    likeness: Vec<(String, Likeness)>,
    ask_enum: usize,
    answers: Option<usize>,
    tail_max: usize,
    core_asks: Vec<String>,
    asks_used: Vec<String>,
    item_kinds: Vec<(String, String)>,
    item_examples: Vec<String>,
    criteria: Criteria,
}

impl Profile {
    /// Its name: `pay`, or `core` for the core alone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version its file gives.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// SHA-256 of the text of its file, as 64 hex digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The execution slots named for an ask: the values such an act is done with. `None` where the profile names none.
    pub fn exec(&self, ask: &str) -> Option<&[String]> {
        self.exec
            .iter()
            .find(|(a, _)| a == ask)
            .map(|(_, slots)| slots.as_slice())
    }

    /// The execution slots of an `UNDO` that reverses an act of this ask: those of the `UNDO` ([`Profile::exec`]), which
    /// every reversal has, and its own. `None` where the profile does not tell reversals apart.
    pub fn undo(&self, reversed: &str) -> Option<&[String]> {
        self.undo
            .iter()
            .find(|(a, _)| a == reversed)
            .map(|(_, slots)| slots.as_slice())
    }

    /// Every slot that a reversal may have besides those of the `UNDO`, each once.
    pub(crate) fn undo_slots(&self) -> impl Iterator<Item = &String> {
        let all = || self.undo.iter().flat_map(|(_, slots)| slots);
        all()
            .enumerate()
            .filter(move |(at, slot)| !all().take(*at).any(|earlier| earlier == *slot))
            .map(|(_, slot)| slot)
    }

    /// What makes two acts of this ask likely to be one, where the profile says so.
    pub fn likeness(&self, ask: &str) -> Option<&Likeness> {
        self.likeness
            .iter()
            .find(|(a, _)| a == ask)
            .map(|(_, likeness)| likeness)
    }

    /// True when the ask is in the vocabulary.
    pub fn knows_ask(&self, ask: &str) -> bool {
        self.enums[self.ask_enum].has(ask)
    }

    /// The agents a profile names (and `human`), sorted; `None` when it leaves them open.
    pub fn agents(&self) -> Option<&[String]> {
        self.agents.as_deref()
    }

    /// The asks for which execution slots are named: the irreversible ones.
    pub fn exec_asks(&self) -> impl Iterator<Item = &str> {
        self.exec.iter().map(|(ask, _)| ask.as_str())
    }

    /// Every slot key, in the order lines are written in.
    pub fn slot_keys(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|s| s.key.as_str())
    }

    /// True when a message of this type may carry the slot without a warning.
    pub fn allows(&self, kind: Kind, key: &str) -> bool {
        self.slot(key)
            .is_some_and(|at| self.kind(kind).allowed & (1 << at) != 0)
    }

    /// True when a DN may carry the slot as a value of the profile's own: not one of those every line has.
    pub fn reports(&self, key: &str) -> bool {
        !self.is_core && self.slot(key).is_some_and(|at| at >= self.own_from) && self.allows(Kind::Dn, key)
    }

    pub(crate) fn slot(&self, key: &str) -> Option<usize> {
        self.lookup.find(key, &self.slots)
    }

    pub(crate) fn slot_def(&self, at: usize) -> &SlotDef {
        &self.slots[at]
    }

    pub(crate) fn kind(&self, kind: Kind) -> &KindDef {
        &self.kinds[kind as usize]
    }

    pub(crate) fn enumeration(&self, at: usize) -> &EnumDef {
        &self.enums[at]
    }

    pub(crate) fn answers(&self) -> Option<&EnumDef> {
        self.answers.map(|at| &self.enums[at])
    }

    pub(crate) fn knows_agent(&self, name: &str) -> bool {
        self.agents
            .as_ref()
            .is_none_or(|known| known.binary_search_by(|a| a.as_str().cmp(name)).is_ok())
    }

    pub(crate) fn tail_max(&self) -> usize {
        self.tail_max
    }

    pub(crate) fn criteria(&self) -> &Criteria {
        &self.criteria
    }
}

/// What a slot's value must look like (RW1 specification §7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotType {
    Token,
    Ref,
    MsgId,
    Agent,
    Date,
    Time,
    Days,
    Money,
    Num,
    Bool,
    Int {
        lo: i64,
        hi: i64,
    },
    /// Index into the profile's vocabularies.
    Enum(usize),
    /// Joined with `+`; never a list of lists.
    List(Box<SlotType>),
}

#[derive(Clone, Debug)]
pub(crate) struct SlotDef {
    pub(crate) key: String,
    pub(crate) ty: SlotType,
    /// The type as the file writes it.
    pub(crate) ty_text: String,
    pub(crate) desc: Option<String>,
}

/// A closed vocabulary.
#[derive(Clone, Debug)]
pub(crate) struct EnumDef {
    pub(crate) name: String,
    /// Code and meaning, in the order of the file.
    pub(crate) codes: Vec<(String, String)>,
    sorted: Vec<String>,
}

impl EnumDef {
    pub(crate) fn has(&self, code: &str) -> bool {
        self.sorted.binary_search_by(|c| c.as_str().cmp(code)).is_ok()
    }
}

/// What a message type requires and allows. Slots are numbered as in [`Profile::slots`].
#[derive(Clone, Debug)]
pub(crate) struct KindDef {
    /// What people call it.
    pub(crate) name: String,
    pub(crate) required: Vec<usize>,
    pub(crate) optional: Vec<usize>,
    /// One bit per slot.
    pub(crate) allowed: u128,
}

/// The closed set of keys for acceptance criteria (RW1 specification §5.2); part of the core.
#[derive(Clone, Debug, Default)]
pub(crate) struct Criteria {
    /// Key and meaning.
    pub(crate) keys: Vec<(String, String)>,
    /// The keys that may repeat.
    pub(crate) set_keys: Vec<String>,
    /// A value, and the other words for it.
    pub(crate) aliases: Vec<(String, Vec<String>)>,
}

impl Criteria {
    pub(crate) fn knows(&self, key: &str) -> bool {
        self.keys.iter().any(|(k, _)| k == key)
    }

    pub(crate) fn repeats(&self, key: &str) -> bool {
        self.set_keys.iter().any(|k| k == key)
    }
}

/// Finds a slot by key. Every key of every line goes through here, so it is an open-addressed table with room to
/// spare rather than a general map.
#[derive(Clone, Debug)]
struct Lookup {
    table: [u8; LOOKUP_SIZE],
}

const LOOKUP_SIZE: usize = 512;
const LOOKUP_EMPTY: u8 = u8::MAX;

/// One bit of a `u128` each; also what keeps the lookup table sparse.
pub(crate) const MAX_SLOTS: usize = 128;

impl Lookup {
    fn build(slots: &[SlotDef]) -> Lookup {
        let mut table = [LOOKUP_EMPTY; LOOKUP_SIZE];
        for (at, slot) in slots.iter().enumerate() {
            let mut place = Lookup::place(&slot.key);
            while table[place] != LOOKUP_EMPTY {
                place = (place + 1) % LOOKUP_SIZE;
            }
            // at < MAX_SLOTS, which the loader has checked
            table[place] = at as u8;
        }
        Lookup { table }
    }

    fn find(&self, key: &str, slots: &[SlotDef]) -> Option<usize> {
        let mut place = Lookup::place(key);
        loop {
            let at = self.table[place];
            if at == LOOKUP_EMPTY {
                return None;
            }
            if slots[usize::from(at)].key == key {
                return Some(usize::from(at));
            }
            place = (place + 1) % LOOKUP_SIZE;
        }
    }

    fn place(key: &str) -> usize {
        let hash = key
            .bytes()
            .take(16)
            .fold(0u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
        (hash >> 8) as usize % LOOKUP_SIZE
    }
}
