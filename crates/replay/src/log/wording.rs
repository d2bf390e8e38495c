//! Differences in words.

use reprise_plan::command::Tolerance;

use super::difference::{Code, Difference, FIELDS, Field};

impl Difference {
    /// In words, with the values: `returned ENOENT, traced 3`.
    pub fn text(&self) -> String {
        let Difference { found, traced, .. } = *self;
        match self.code {
            Code::Nothing => String::new(),
            Code::Outcome | Code::Value => {
                format!("returned {}, traced {}", result_text(found as i64), result_text(traced as i64))
            }
            Code::Content => format!("content differs at byte {found} of {traced}"),
            Code::Digest => format!("content differs in the MiB at byte {found} of {traced}"),
            Code::Metadata => match self.field {
                Field::Kind => format!("type {}, traced {}", kind_text(found), kind_text(traced)),
                Field::Mode => format!("mode {:04o}, traced {:04o}", found & 0o7777, traced & 0o7777),
                Field::None => self.general(),
                Field::DeviceNode => self.field.word().to_owned(),
                field => format!("{} {found}, traced {traced}", field.word()),
            },
            Code::Listing if found == traced => format!("lists other names ({found} entries)"),
            Code::Listing => format!("lists {found} entries, traced {traced}"),
            Code::Names if found == traced => format!("other names ({found})"),
            Code::Names => format!("{found} names, traced {traced}"),
            Code::Flock => "finds another lock".to_owned(),
            Code::Lock => {
                format!("lock not available ({}), traced {}", result_text(found as i64), result_text(traced as i64))
            }
            Code::MappingRange => "outside of what is mapped".to_owned(),
            Code::Refused => "not issued by a replay".to_owned(),
        }
    }

    /// In words without values, to count alike differences together.
    pub fn general(&self) -> String {
        let success = |result: u64| match (result as i64) < 0 {
            true => result_text(result as i64),
            false => "success".to_owned(),
        };
        match self.code {
            Code::Outcome => format!("{} instead of {}", success(self.found), success(self.traced)),
            Code::Value => "another result".to_owned(),
            Code::Content | Code::Digest => "content differs".to_owned(),
            Code::Metadata if self.field != Field::None => format!("{} differs", self.field.word()),
            Code::Metadata => {
                let mut words: Vec<&str> = Vec::new();
                for field in FIELDS.iter().filter(|f| self.unavoidable & f.bit() != 0) {
                    if !words.contains(&field.word()) {
                        words.push(field.word());
                    }
                }
                words.join(", ")
            }
            Code::Listing => "lists other names".to_owned(),
            Code::Names => "other names".to_owned(),
            Code::Lock => "lock not available".to_owned(),
            Code::Nothing | Code::Flock | Code::MappingRange | Code::Refused => self.text(),
        }
    }

    /// Why it cannot be avoided.
    pub fn excuse(&self) -> String {
        const ALL: [Tolerance; 7] = {
            use Tolerance::*;
            [None, Pseudo, Random, Machine, Mapping, Unrecorded, Amid]
        };
        match ALL.get(usize::from(self.tolerance)) {
            Some(Tolerance::None) | None => self.general(),
            Some(tolerance) => tolerance.text().to_owned(),
        }
    }
}

/// A result: a number, or the name of an error.
fn result_text(result: i64) -> String {
    if (-4095..0).contains(&result) { crate::engine::error_name(result) } else { result.to_string() }
}

fn kind_text(mode: u64) -> &'static str {
    match mode as u32 & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "symbolic link",
        libc::S_IFIFO => "FIFO",
        libc::S_IFSOCK => "socket",
        libc::S_IFCHR => "character device",
        libc::S_IFBLK => "block device",
        _ => "unknown",
    }
}
