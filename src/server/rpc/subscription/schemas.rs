//! Schemas that a consume stream has announced.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proto::v1;
use vnode::subscribe::BlockSchema;

/// Numbers of one stream, shared by its readers.
#[derive(Debug, Default)]
pub struct SchemaNumbers(AtomicU32);

/// What one reader has announced on its stream. Readers of one stream announce by themselves, so that none depends on
/// the other's message being sent first.
#[derive(Debug)]
pub struct Announced {
    numbers: Arc<SchemaNumbers>,
    known: HashMap<Arc<BlockSchema>, u32>,
    /// The one used last: most messages have one schema, and comparing pointers is cheaper than hashing names.
    last: Option<(Arc<BlockSchema>, u32)>,
}

impl Announced {
    /// Nothing yet.
    pub fn new(numbers: Arc<SchemaNumbers>) -> Self {
        Self { numbers, known: HashMap::new(), last: None }
    }

    /// The schema's number on the stream, and the announcement to send before its first use.
    pub fn number(&mut self, schema: &Arc<BlockSchema>, precision: u32) -> (u32, Option<v1::StreamSchema>) {
        if let Some((last, number)) = &self.last
            && Arc::ptr_eq(last, schema)
        {
            return (*number, None);
        }
        let (number, news) = match self.known.get(schema) {
            Some(&number) => (number, None),
            None => {
                let id = self.numbers.0.fetch_add(1, Ordering::Relaxed);
                self.known.insert(Arc::clone(schema), id);
                let columns = schema.columns.iter().map(|(name, data_type)| v1::ResultColumn {
                    name: name.clone(),
                    r#type: u32::from(data_type.wire_id()),
                    length: u32::from(data_type.length()),
                    precision,
                });
                (id, Some(v1::StreamSchema { id, columns: columns.collect() }))
            }
        };
        self.last = Some((Arc::clone(schema), number));
        (number, news)
    }
}

#[cfg(test)]
mod tests {
    use model::DataType;

    use super::*;

    #[test]
    fn a_schema_is_announced_once_whoever_holds_it() {
        let schema = || Arc::new(BlockSchema { columns: vec![("ts".into(), DataType::Timestamp)] });
        let other = Arc::new(BlockSchema { columns: vec![("v".into(), DataType::Int)] });
        let mut announced = Announced::new(Arc::default());
        let (first, news) = announced.number(&schema(), 1);
        assert_eq!(news.map(|n| (n.id, n.columns[0].precision)), Some((first, 1)));
        assert_eq!(announced.number(&schema(), 1), (first, None));
        let (second, news) = announced.number(&other, 1);
        assert!(second != first && news.is_some());
        assert_eq!(announced.number(&schema(), 1), (first, None));
    }
}
