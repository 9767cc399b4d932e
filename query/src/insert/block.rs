//! One table block after another: what it is for, then its rows.

use model::{Code, Error, Precision, Result, TableSchema, Value};

use super::gather::Gather;
use super::rows::{Names, RowReader, tag_value};
use super::scan::Scan;
use super::{InsertCatalog, InsertContext, TargetKind, qualify};
use crate::ast::ObjectName;
use crate::literal::LiteralContext;
use crate::parser::NameKind;

/// Reads the blocks of one statement.
pub(super) struct BlockReader<'a> {
    scan: Scan<'a>,
    context: &'a InsertContext<'a>,
    catalog: &'a mut dyn InsertCatalog,
    gather: &'a mut Gather,
    /// For databases in ms, us and ns.
    literals: [LiteralContext; 3],
}

impl<'a> BlockReader<'a> {
    pub(super) fn new(
        scan: Scan<'a>,
        context: &'a InsertContext<'a>,
        catalog: &'a mut dyn InsertCatalog,
        gather: &'a mut Gather,
    ) -> Self {
        let literals = [Precision::Ms, Precision::Us, Precision::Ns]
            .map(|precision| LiteralContext::new(precision, context.zone, context.now_ns));
        Self { scan, context, catalog, gather, literals }
    }

    /// All blocks to the end of the statement.
    pub(super) fn blocks(&mut self) -> Result<()> {
        loop {
            self.block()?;
            match self.scan.next_byte() {
                None => return Ok(()),
                Some(b';') => {
                    while self.scan.take(b';') {}
                    return match self.scan.next_byte() {
                        None => Ok(()),
                        Some(_) => Err(self.scan.error("one statement at a time")),
                    };
                }
                Some(_) => {}
            }
        }
    }

    fn block(&mut self) -> Result<()> {
        self.scan.next_byte();
        let named_at = self.scan.position();
        let name = self.scan.object_name()?;
        let mut names = self.column_list()?;
        let (target, tags, name) = if self.scan.take_word("USING") {
            self.scan.next_byte();
            let using_at = self.scan.position();
            let using = qualify(self.scan.object_name()?, self.context)?;
            let name = self.qualify_child(name, &using)?;
            let target = self.catalog.target(&name, Some(&using)).map_err(|error| {
                // What else can be wrong than the super table is its child, or another's.
                let at = if error.code() == Code::TableNotExist { using_at } else { named_at };
                error.or_at(Some(self.scan.place(at)))
            })?;
            let precision = target.database.options.precision;
            let tags = match &target.kind {
                TargetKind::Child(stable) => self.using_tags(&stable.schema, precision)?,
                TargetKind::Normal(_) | TargetKind::Stable(_) => return Err(self.not_a_stable()),
            };
            if names.is_none() {
                names = self.column_list()?;
            }
            (target, Some(tags), name)
        } else {
            let name = qualify(name, self.context)?;
            let target = self.catalog.target(&name, None);
            (target.map_err(|error| error.or_at(Some(self.scan.place(named_at))))?, None, name)
        };
        self.expect_values()?;
        let literals = literals_of(&self.literals, target.database.options.precision);
        let each_row_names = matches!(target.kind, TargetKind::Stable(_));
        let index = self.gather.relation(target, &name.name);
        let (relation, rows) = self.gather.relation_and_rows(index)?;
        let mut reader = RowReader { scan: &mut self.scan, literals, relation, rows };
        if each_row_names { reader.stable_rows(names) } else { reader.table_rows(&name.name, tags, names) }
    }

    /// The child of `using` lives in its database.
    fn qualify_child(&self, name: ObjectName, using: &ObjectName) -> Result<ObjectName> {
        let name = qualify(name, self.context)?;
        if name.database != using.database {
            return Err(Error::of(Code::OtherDatabase));
        }
        Ok(name)
    }

    /// USING names a table without tags: there is nothing that TAGS could hold.
    fn not_a_stable(&mut self) -> Error {
        if let Err(error) = self.column_list() {
            return error;
        }
        if !self.scan.take_word("TAGS") {
            return self.scan.error("TAGS is expected");
        }
        self.scan.take(b'(');
        self.scan.next_byte();
        self.scan.error(") is expected")
    }

    fn expect_values(&mut self) -> Result<()> {
        if self.scan.take_word("VALUES") {
            return Ok(());
        }
        let at = self.scan.position();
        let unsupported = if self.scan.at_word("FILE") {
            "INSERT .. FILE"
        } else if self.scan.at_word("SELECT") || self.scan.next_byte() == Some(b'(') {
            "INSERT .. SELECT"
        } else {
            return Err(self.scan.error("keyword VALUES or FILE is expected"));
        };
        Err(Error::not_supported(unsupported).at(self.scan.place(at)).hint(
            "write the rows with `tidemark sql -o csv` into a file, and load that with `tidemark import`",
        ))
    }

    /// `(a, b, c)`, if that comes next and is no query.
    fn column_list(&mut self) -> Result<Option<Names>> {
        if self.scan.next_byte() != Some(b'(') {
            return Ok(None);
        }
        let start = self.scan.position();
        self.scan.take(b'(');
        if self.scan.at_word("SELECT") {
            self.scan.go_back(start);
            return Ok(None);
        }
        let mut names = Vec::new();
        loop {
            self.scan.next_byte();
            let at = self.scan.position();
            let name = self.scan.name(NameKind::Column)?;
            if names.iter().any(|(other, _)| *other == name) {
                let text = format!("syntax error near '{name}' (duplicated column name)");
                return Err(Error::text(Code::InsertSyntax, text).at(self.scan.place(at)));
            }
            names.push((name, at));
            if self.scan.take(b')') {
                return Ok(Some(names));
            }
            self.scan.expect(b',')?;
        }
    }

    /// `[(tag, ..)] TAGS (value, ..)`: all tags of the super table, those not given NULL.
    fn using_tags(&mut self, schema: &TableSchema, precision: Precision) -> Result<Vec<Value>> {
        let order: Vec<usize> = match self.column_list()? {
            None => (0..schema.tags.len()).collect(),
            Some(names) => {
                let place = |(name, at): &(String, usize)| {
                    schema
                        .tag(name)
                        .map(|(index, _)| index)
                        .ok_or_else(|| self.scan.unknown_column(schema, name, *at))
                };
                names.iter().map(place).collect::<Result<_>>()?
            }
        };
        if !self.scan.take_word("TAGS") {
            return Err(self.scan.error("TAGS is expected"));
        }
        self.scan.expect(b'(')?;
        let mut values = vec![Value::Null; schema.tags.len()];
        for (position, &index) in order.iter().enumerate() {
            if position > 0 && !self.scan.take(b',') {
                let error = self.scan.error("invalid data or symbol");
                return Err(match self.scan.next_byte() {
                    Some(b')') => error.hint(tag_count(schema, &order, &position.to_string())),
                    _ => error,
                });
            }
            let Some(tag) = schema.tags.get(index) else { continue };
            let value = tag_value(&mut self.scan, tag, literals_of(&self.literals, precision))?;
            if let Some(slot) = values.get_mut(index) {
                *slot = value;
            }
        }
        if self.scan.take(b')') {
            return Ok(values);
        }
        if self.scan.take(b',') {
            let given = format!("more than {}", order.len());
            let place = self.scan.place(self.scan.position());
            return Err(Error::of(Code::TagsNotMatched).at(place).hint(tag_count(schema, &order, &given)));
        }
        Err(self.scan.error(") expected"))
    }
}

/// What is said of too few or too many tag values.
fn tag_count(schema: &TableSchema, order: &[usize], given: &str) -> String {
    let names = order.iter().filter_map(|&index| schema.tags.get(index)).map(|tag| tag.name.as_str());
    format!("{given} values for {} tags: {}", order.len(), names.collect::<Vec<_>>().join(", "))
}

fn literals_of(literals: &[LiteralContext; 3], precision: Precision) -> &LiteralContext {
    let [ms, us, ns] = literals;
    match precision {
        Precision::Ms => ms,
        Precision::Us => us,
        Precision::Ns => ns,
    }
}
