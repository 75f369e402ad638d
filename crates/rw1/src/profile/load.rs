//! From a profile's JSON text to its tables, refusing whatever would make a check say less than it seems to.
//!
//! A profile may add: codes, vocabularies, slots, agents. It may not redefine or remove anything of the core. A key
//! this version does not know is refused, because a misspelt `exec` would silently switch the execution checks off;
//! keys that begin with `x_` are left alone.

use serde_json::Value;

use super::file::{File, ProfileError};
use super::{
    Criteria, EnumDef, KindDef, Likeness, Lookup, MAX_SLOTS, Profile, Registry, SlotDef, SlotType, Span,
};
use crate::digest::sha256_hex;
use crate::kind::Kind;

/// The profiles in the binary.
pub(super) const BUILTIN: &[(&str, &str)] = &[
    ("core", CORE),
    ("pay", include_str!("../../../../profiles/pay.json")),
    ("deploy", include_str!("../../../../profiles/deploy.json")),
    ("mail", include_str!("../../../../profiles/mail.json")),
    ("clin", include_str!("../../../../profiles/clin.json")),
    ("pform", include_str!("../../../../profiles/pform.json")),
];

const CORE: &str = include_str!("../../../../profiles/core.json");

const MAX_PROFILES: usize = 256;
const MAX_TAIL_CHARS: u64 = 10_000;
const MAX_LIKENESS_DAYS: u64 = 3_650;

pub(super) fn registry(texts: Vec<(String, String)>) -> Result<Registry, ProfileError> {
    if texts.len() > MAX_PROFILES {
        return Err(ProfileError::TooMany { count: texts.len() });
    }
    let mut names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(ProfileError::Twice {
            name: pair[0].to_owned(),
        });
    }
    let core_text = texts
        .iter()
        .find(|(name, _)| name == "core")
        .map_or(CORE, |(_, text)| text.as_str());
    let core = Draft::core(core_text)?;
    let mut named = Vec::with_capacity(texts.len());
    for (name, text) in texts.iter().filter(|(name, _)| name != "core") {
        named.push(core.clone().extended(name, text)?.compile()?);
    }
    named.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Registry {
        core: core.compile()?,
        named,
    })
}

/// A profile being put together: names instead of numbers, order as in the files.
#[derive(Clone)]
struct Draft {
    name: String,
    version: String,
    digest: String,
    is_core: bool,
    /// key, type, description
    slots: Vec<(String, String, Option<String>)>,
    /// name, codes
    enums: Vec<(String, Vec<(String, String)>)>,
    /// in the order of [`Kind::ALL`]: name, required, optional
    kinds: Vec<(String, Vec<String>, Vec<String>)>,
    agents: Vec<String>,
    exec: Vec<(String, Vec<String>)>,
    undo: Vec<(String, Vec<String>)>,
    /// The place of the first slot that is not the core's.
    own_from: usize,
    likeness: Vec<(String, Likeness)>,
    tail_max: usize,
    core_asks: Vec<String>,
    asks_used: Vec<String>,
    item_kinds: Vec<(String, String)>,
    item_examples: Vec<String>,
    criteria: Criteria,
}

const CORE_KEYS: &[&str] = &[
    "profile",
    "version",
    "types",
    "slots",
    "enums",
    "tail_max_chars",
    "reserved_agents",
    "constraint_keys",
    "constraint_set_keys",
    "value_aliases",
    "description",
];

const PROFILE_KEYS: &[&str] = &[
    "profile",
    "version",
    "extends",
    "description",
    "enums",
    "asks",
    "slots",
    "agents",
    "item_namespace",
    "item_kinds",
    "item_examples",
    "asks_used",
    "translation",
    "exec",
    "undo",
    "likeness",
];

/// What the checks themselves read: a core that types these otherwise could not be checked against.
const CORE_TYPES: &[(&str, &str)] = &[
    ("re", "msgid"),
    ("from", "agent"),
    ("to", "agent"),
    ("item", "ref"),
    ("ask", "enum:ask"),
    ("due", "date"),
    ("exp", "time"),
    ("p", "token"),
    ("rb", "list:token"),
    ("h", "token"),
    ("acc", "list:token"),
    ("do", "token"),
    ("not", "list:token"),
    ("keys", "list:token"),
    ("out", "enum:out"),
    ("val", "token"),
    ("need", "enum:need"),
    ("opts", "list:token"),
    ("why", "enum:why"),
    ("ctx", "list:msgid"),
];

impl Draft {
    fn core(text: &str) -> Result<Draft, ProfileError> {
        let file = File::read("core", text)?;
        file.only(CORE_KEYS)?;
        let types = file.object("types")?;
        if types.len() != Kind::ALL.len() {
            return Err(file.rule(
                "types",
                "the core defines exactly the nine types HO RB AQ AN ST DN UN FL CX",
            ));
        }
        let mut kinds = Vec::new();
        for kind in Kind::ALL {
            let field = format!("types.{kind}");
            let entry = types.get(kind.as_str()).and_then(Value::as_object);
            let entry =
                entry.ok_or_else(|| file.rule(&field, "the core defines all nine types as objects"))?;
            let list = |key: &str| file.strings(&format!("{field}.{key}"), entry.get(key));
            let name = entry
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            kinds.push((name, list("required")?, list("optional")?));
        }
        let slots = file.pairs("slots", file.value("slots"))?;
        for (key, ty) in CORE_TYPES {
            if !slots.iter().any(|(k, t)| k == key && t == ty) {
                return Err(file.rule(
                    &format!("slots.{key}"),
                    format!("the core's {key} is of type {ty}"),
                ));
            }
        }
        let mut enums = Vec::new();
        for (name, codes) in file.object("enums")? {
            enums.push((name.clone(), file.pairs(&format!("enums.{name}"), Some(codes))?));
        }
        let asks = enums
            .iter()
            .find(|(name, _)| name == "ask")
            .map(|(_, codes)| codes.as_slice())
            .unwrap_or_default();
        let core_asks = asks.iter().map(|(code, _)| code.clone()).collect();
        let tail_max = match file.value("tail_max_chars") {
            None => 300,
            Some(v) => match v.as_u64().filter(|n| (1..=MAX_TAIL_CHARS).contains(n)) {
                Some(n) => n as usize,
                None => return Err(file.rule("tail_max_chars", "a whole number from 1 to 10000")),
            },
        };
        let mut aliases = Vec::new();
        for (word, others) in file.object("value_aliases")? {
            aliases.push((
                word.clone(),
                file.strings(&format!("value_aliases.{word}"), Some(others))?,
            ));
        }
        let criteria = Criteria {
            keys: file.pairs("constraint_keys", file.value("constraint_keys"))?,
            set_keys: file.strings("constraint_set_keys", file.value("constraint_set_keys"))?,
            aliases,
        };
        Ok(Draft {
            name: "core".into(),
            version: file.text("version")?.unwrap_or_default(),
            digest: sha256_hex(text.as_bytes()),
            is_core: true,
            slots: slots.into_iter().map(|(key, ty)| (key, ty, None)).collect(),
            enums,
            kinds,
            agents: Vec::new(),
            exec: Vec::new(),
            undo: Vec::new(),
            own_from: 0,
            likeness: Vec::new(),
            tail_max,
            core_asks,
            asks_used: Vec::new(),
            item_kinds: Vec::new(),
            item_examples: Vec::new(),
            criteria,
        })
    }

    fn extended(mut self, name: &str, text: &str) -> Result<Draft, ProfileError> {
        if !is_profile_name(name) {
            return Err(ProfileError::Name {
                name: name.to_owned(),
            });
        }
        let file = File::read(name, text)?;
        file.only(PROFILE_KEYS)?;
        if let Some(stated) = file.text("profile")?
            && stated != name
        {
            return Err(file.rule("profile", format!("the file is named {name} but says '{stated}'")));
        }
        for (ename, codes) in file.object("enums")? {
            let field = format!("enums.{ename}");
            let codes = file.pairs(&field, Some(codes))?;
            self.add_codes(&file, ename, &field, codes)?;
        }
        let asks = file.pairs("asks", file.value("asks"))?;
        self.add_codes(&file, "ask", "asks", asks)?;
        self.own_from = self.slots.len();
        self.add_slots(&file)?;
        let mut agents = file.strings("agents", file.value("agents"))?;
        if !agents.is_empty() {
            agents.push("human".into());
            agents.sort();
            agents.dedup();
        }
        for (ask, slots) in file.object("exec")? {
            self.exec
                .push((ask.clone(), file.strings(&format!("exec.{ask}"), Some(slots))?));
        }
        for (ask, slots) in file.object("undo")? {
            self.undo
                .push((ask.clone(), file.strings(&format!("undo.{ask}"), Some(slots))?));
        }
        for (ask, entry) in file.object("likeness")? {
            self.likeness.push((ask.clone(), likeness(&file, ask, entry)?));
        }
        self.check_asks(&file)?;
        self.name = name.to_owned();
        self.version = file.text("version")?.unwrap_or_default();
        self.digest = sha256_hex(text.as_bytes());
        self.is_core = false;
        self.agents = agents;
        self.asks_used = file.strings("asks_used", file.value("asks_used"))?;
        self.item_kinds = file.pairs("item_kinds", file.value("item_kinds"))?;
        self.item_examples = file.strings("item_examples", file.value("item_examples"))?;
        Ok(self)
    }

    fn add_codes(
        &mut self,
        file: &File<'_>,
        ename: &str,
        field: &str,
        codes: Vec<(String, String)>,
    ) -> Result<(), ProfileError> {
        let at = match self.enums.iter().position(|(name, _)| name == ename) {
            Some(at) => at,
            None => {
                self.enums.push((ename.to_owned(), Vec::new()));
                self.enums.len() - 1
            }
        };
        let known = &mut self.enums[at].1;
        for (code, meaning) in codes {
            if known.iter().any(|(c, _)| *c == code) {
                return Err(file.rule(
                    &format!("{field}.{code}"),
                    "the code exists; a profile adds codes and never redefines one",
                ));
            }
            known.push((code, meaning));
        }
        Ok(())
    }

    fn add_slots(&mut self, file: &File<'_>) -> Result<(), ProfileError> {
        let Some(slots) = file.value("slots") else {
            return Ok(());
        };
        let slots = slots
            .as_array()
            .ok_or_else(|| file.rule("slots", "a list of objects"))?;
        for slot in slots {
            let text = |key: &str| slot.get(key).and_then(Value::as_str);
            let (Some(key), Some(ty)) = (text("key"), text("type")) else {
                return Err(file.rule("slots", "every slot has a key and a type, both texts"));
            };
            let field = format!("slots.{key}");
            if self.slots.iter().any(|(k, _, _)| k == key) {
                return Err(file.rule(
                    &field,
                    "the slot exists; a profile adds slots and never redefines one",
                ));
            }
            let required = slot.get("required").and_then(Value::as_bool).unwrap_or(false);
            for on in file.strings(&format!("{field}.on"), slot.get("on"))? {
                let kind: Kind = on
                    .parse()
                    .map_err(|e| file.rule(&format!("{field}.on"), format!("{on}: {e}")))?;
                let (_, req, opt) = &mut self.kinds[kind as usize];
                if required { req } else { opt }.push(key.to_owned());
            }
            let desc = text("desc").filter(|d| !d.is_empty()).map(str::to_owned);
            self.slots.push((key.to_owned(), ty.to_owned(), desc));
        }
        Ok(())
    }

    /// `exec`, `undo` and `likeness` speak only of asks and slots that exist.
    fn check_asks(&self, file: &File<'_>) -> Result<(), ProfileError> {
        let asks = self
            .enums
            .iter()
            .find(|(name, _)| name == "ask")
            .map(|(_, codes)| codes.as_slice())
            .unwrap_or_default();
        let exec = self.exec.iter().map(|(ask, slots)| ("exec", ask, slots));
        let likeness = self.likeness.iter().map(|(ask, l)| ("likeness", ask, &l.slots));
        let undo = self.undo.iter().map(|(ask, slots)| ("undo", ask, slots));
        for (field, ask, slots) in exec.chain(undo).chain(likeness) {
            let field = format!("{field}.{ask}");
            if !asks.iter().any(|(code, _)| code == ask) {
                return Err(file.rule(&field, "no such ask in this profile or the core"));
            }
            for key in slots {
                let known = self.slots.iter().any(|(k, _, _)| k == key);
                let header = matches!(key.as_str(), "re" | "from" | "to")
                    || (key == "item" && field.starts_with("exec"));
                if !known || header {
                    return Err(file.rule(&field, format!("'{key}' is not a slot that can be named here")));
                }
            }
            if slots.is_empty() {
                return Err(file.rule(&field, "name at least one slot, or leave the ask out"));
            }
        }
        Ok(())
    }

    fn compile(self) -> Result<Profile, ProfileError> {
        let rule = |field: &str, rule: &str| ProfileError::Rule {
            name: self.name.clone(),
            field: field.to_owned(),
            rule: rule.to_owned(),
        };
        if self.slots.len() > MAX_SLOTS {
            return Err(rule("slots", "at most 128 slots, the core's 32 included"));
        }
        let enums: Vec<EnumDef> = self
            .enums
            .iter()
            .map(|(name, codes)| {
                let mut sorted: Vec<String> = codes.iter().map(|(code, _)| code.clone()).collect();
                sorted.sort();
                EnumDef {
                    name: name.clone(),
                    codes: codes.clone(),
                    sorted,
                }
            })
            .collect();
        let mut slots = Vec::with_capacity(self.slots.len());
        for (key, ty_text, desc) in &self.slots {
            let field = format!("slots.{key}");
            if !crate::value::is_key(key) {
                return Err(rule(&field, "a key is lowercase [a-z][a-z0-9_]*"));
            }
            let ty = slot_type(ty_text, &enums).ok_or_else(|| {
                rule(
                    &field,
                    &format!("'{ty_text}' is not a slot type, or names a vocabulary there is not"),
                )
            })?;
            slots.push(SlotDef {
                key: key.clone(),
                ty,
                ty_text: ty_text.clone(),
                desc: desc.clone(),
            });
        }
        let at = |key: &String| slots.iter().position(|s| s.key == *key);
        let mut kinds = Vec::with_capacity(self.kinds.len());
        for ((name, required, optional), kind) in self.kinds.iter().zip(Kind::ALL) {
            let number = |keys: &[String]| -> Result<Vec<usize>, ProfileError> {
                keys.iter()
                    .map(|k| at(k).ok_or_else(|| rule(&format!("types.{kind}"), &format!("no slot {k}"))))
                    .collect()
            };
            let (required, optional) = (number(required)?, number(optional)?);
            let allowed = bits(&required) | bits(&optional);
            kinds.push(KindDef {
                name: name.clone(),
                required,
                optional,
                allowed,
            });
        }
        let everywhere = at(&"p".to_owned()).map_or(0, |p| 1u128 << p);
        let handoff = kinds[Kind::Ho as usize].allowed;
        // A readback may echo whatever a handoff carries; and what an act is done with is stated and reported.
        let exec = self
            .exec
            .iter()
            .chain(&self.undo)
            .flat_map(|(_, keys)| keys)
            .filter_map(at)
            .fold(0u128, |b, n| b | 1 << n);
        for (def, kind) in kinds.iter_mut().zip(Kind::ALL) {
            def.allowed |= everywhere;
            match kind {
                Kind::Rb => def.allowed |= handoff | exec,
                Kind::Dn => def.allowed |= exec,
                _ => {}
            }
        }
        let find = |name: &str| enums.iter().position(|e| e.name == name);
        let ask_enum = find("ask").ok_or_else(|| rule("enums.ask", "the core has this vocabulary"))?;
        Ok(Profile {
            lookup: Lookup::build(&slots),
            answers: find("ans").filter(|&at| !enums[at].codes.is_empty()),
            ask_enum,
            slots,
            enums,
            kinds,
            name: self.name,
            version: self.version,
            digest: self.digest,
            is_core: self.is_core,
            agents: (!self.agents.is_empty()).then_some(self.agents),
            exec: self.exec,
            undo: self.undo,
            own_from: self.own_from,
            likeness: self.likeness,
            tail_max: self.tail_max,
            core_asks: self.core_asks,
            asks_used: self.asks_used,
            item_kinds: self.item_kinds,
            item_examples: self.item_examples,
            criteria: self.criteria,
        })
    }
}

/// `[a-z0-9][a-z0-9_-]{0,31}`, and not `core`.
fn is_profile_name(name: &str) -> bool {
    let b = name.as_bytes();
    let plain = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    name != "core"
        && (1..=32).contains(&b.len())
        && plain(&b[0])
        && b.iter().all(|c| plain(c) || matches!(c, b'_' | b'-'))
}

fn bits(slots: &[usize]) -> u128 {
    slots.iter().fold(0, |bits, at| bits | 1 << at)
}

fn slot_type(text: &str, enums: &[EnumDef]) -> Option<SlotType> {
    if let Some(inner) = text.strip_prefix("list:") {
        let inner = slot_type(inner, enums)?;
        return (!matches!(inner, SlotType::List(_))).then(|| SlotType::List(Box::new(inner)));
    }
    if let Some(name) = text.strip_prefix("enum:") {
        return enums.iter().position(|e| e.name == name).map(SlotType::Enum);
    }
    if let Some(range) = text.strip_prefix("int:") {
        let (lo, hi) = range.split_once('-')?;
        let digits = |s: &str| {
            (!s.is_empty() && s.len() <= 18 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok())
        };
        let (lo, hi) = (digits(lo)??, digits(hi)??);
        return (lo <= hi).then_some(SlotType::Int { lo, hi });
    }
    Some(match text {
        "token" => SlotType::Token,
        "ref" => SlotType::Ref,
        "msgid" => SlotType::MsgId,
        "agent" => SlotType::Agent,
        "date" => SlotType::Date,
        "time" => SlotType::Time,
        "days" => SlotType::Days,
        "money" => SlotType::Money,
        "num" => SlotType::Num,
        "bool" => SlotType::Bool,
        _ => return None,
    })
}

fn likeness(file: &File<'_>, ask: &str, entry: &Value) -> Result<Likeness, ProfileError> {
    let field = format!("likeness.{ask}");
    let slots = file.strings(&format!("{field}.slots"), entry.get("slots"))?;
    let span = match (entry.get("days"), entry.get("open_only").and_then(Value::as_bool)) {
        (None, Some(true)) => Span::OpenOnly,
        (Some(days), None) => match days.as_u64().filter(|d| (1..=MAX_LIKENESS_DAYS).contains(d)) {
            Some(days) => Span::Days(days as u32),
            None => return Err(file.rule(&format!("{field}.days"), "a whole number of days from 1 to 3650")),
        },
        _ => return Err(file.rule(&field, "say either days=<n> or open_only=true")),
    };
    Ok(Likeness { slots, span })
}
