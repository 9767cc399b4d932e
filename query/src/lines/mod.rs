//! InfluxDB line protocol: rows that bring their schema along.
//!
//! `measurement[,tag=value,..] field=value[,field=value,..] [time]`, a super table, a child and a row of it. [`parse`] reads
//! lines, [`wanted`] says which columns and tags they need, and [`Wanted::missing`] which statements make them where they
//! are not there: a write of lines is nothing but these statements, and then [`crate::insert::plan_lines`].
//!
//! Not for: carrying any of this out.

mod read;
mod schema;

pub use read::parse;
pub use schema::{Missing, Wanted, wanted};

use md5::{Digest as _, Md5};
use model::DataType;

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its super table.
    pub measurement: String,
    /// In the order of the text.
    pub tags: Vec<(String, String)>,
    /// In the order of the text, at least one.
    pub fields: Vec<(String, Field)>,
    /// Nanoseconds since the epoch; `None` is the server's time.
    pub time_ns: Option<i128>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Of the value; of a text the least that has room for it.
    pub data_type: DataType,
    /// As a literal of INSERT has it, without quotes.
    pub text: String,
    /// Whether it stood within quotes.
    pub quoted: bool,
    /// Whether it began with `\x` there, of which `text` has the `x`.
    pub hex: bool,
}

impl Line {
    /// Name of the child: one for each set of tags, whatever their order.
    #[must_use]
    pub fn table(&self) -> String {
        let mut tags: Vec<_> = self.tags.iter().collect();
        tags.sort();
        let mut digest = Md5::new();
        digest.update(self.measurement.as_bytes());
        for (key, value) in tags {
            digest.update(format!(",{key}={value}").as_bytes());
        }
        let mut name = String::from("t_");
        for byte in digest.finalize() {
            name.push_str(&format!("{byte:02x}"));
        }
        name
    }
}

#[cfg(test)]
mod tests;
