//! Directory listings: the same names in any order and any partition over calls.

use std::collections::{BTreeSet, HashMap};

use reprise_calls::Call;
use reprise_calls::brought::is_stand_in;
use reprise_model::{Listing, entry_names};
use reprise_trace::{Action, Name, ReadError};

use super::contents::{Contents, returned};
use super::context::Context;
use super::judge::{Kind, Verdict};

/// Listings that have begun and not come to their end, by number.
#[derive(Default)]
pub(super) struct Listings {
    open: HashMap<u64, Gathered>,
}

#[derive(Default)]
struct Gathered {
    names: BTreeSet<Vec<u8>>,
    /// A part of the replay's listing is not in its trace.
    unknown: bool,
}

impl Listings {
    /// Takes in one call of a listing, both outcomes being successes; judges at the end of the original's listing.
    pub fn add(
        &mut self,
        call: &Call,
        context: &Context,
        wanted: &Action,
        found: &Action,
        contents: &mut Contents,
    ) -> Result<Verdict, ReadError> {
        let Some(Listing { number, begins, names, as_opened: _ }) = &context.listing else {
            return Ok(Verdict::default());
        };
        if *begins {
            self.open.remove(number);
        }
        let mut gathered = self.open.remove(number).unwrap_or_default();
        match returned(wanted, found, contents)? {
            Some(buffer) => {
                let names = entry_names(&buffer, call.name == "getdents").into_iter();
                gathered.names.extend(names.filter(|name| !is_stand_in(name)));
            }
            None if found.result == 0 => {}
            None => gathered.unknown = true,
        }
        let Some(names) = names else {
            self.open.insert(*number, gathered);
            return Ok(Verdict::default());
        };
        let wanted: BTreeSet<Vec<u8>> = names.iter().cloned().collect();
        if gathered.names == wanted {
            return Ok(Verdict::default());
        }
        if gathered.unknown || (found.result > 0 && gathered.names.is_subset(&wanted)) {
            return Ok(Verdict::uncompared("names listed are not all in the replay's trace"));
        }
        let extra = gathered.names.difference(&wanted).next();
        let lacking = wanted.difference(&gathered.names).next();
        let quote = |name: &Vec<u8>| format!("{:?}", Name(name.clone()).to_text());
        let mut text = format!("lists {} names, traced {}", gathered.names.len(), wanted.len());
        if let Some(name) = lacking {
            text += &format!("; {} is missing", quote(name));
        }
        if let Some(name) = extra {
            text += &format!("; {} is new", quote(name));
        }
        Ok(Verdict::differs(Kind::Listing, "lists other names", text))
    }
}
