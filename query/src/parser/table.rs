//! CREATE, ALTER and DROP of tables and super tables.

use model::limits::{check_columns, check_tags};
use model::{Code, ColumnStorage, Compression, DataType, Encoding, Error, Level, Result, check_key_type};

use super::types::TypePlace;
use super::{NameKind, Parser, is_system_database};
use crate::ast::{
    AlterTable, ColumnSpec, CreateChild, DropTable, ObjectName, Statement, TableOptions, TagLiteral,
};
use crate::lexer::{TokenKind, unquote_text};

const COMMENT_BYTES_MAX: usize = 1_024;

/// A column as written, before the checks on the table as a whole.
struct Written {
    name: String,
    data_type: DataType,
    storage: ColumnStorage,
    is_key: bool,
}

impl Written {
    fn named(&self) -> (&str, DataType) {
        (&self.name, self.data_type)
    }
}

impl Parser<'_> {
    pub(super) fn create_stable(&mut self) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.new_table_name()?;
        let columns = self.column_list()?;
        self.expect_word("TAGS")?;
        self.stable_tail(if_not_exists, name, columns)
    }

    /// A normal table, a super table (TAGS behind the columns), or children (USING).
    pub(super) fn create_table(&mut self) -> Result<Statement> {
        let start = self.next;
        let if_not_exists = self.if_not_exists()?;
        if self.at_word("USING") {
            return Err(self.unsupported("CREATE TABLE USING .. FILE"));
        }
        let name = self.new_table_name()?;
        if self.at_word("USING") {
            self.next = start;
            return self.create_children();
        }
        let columns = self.column_list()?;
        if self.take_word("TAGS") {
            return self.stable_tail(if_not_exists, name, columns);
        }
        let columns = Self::check_columns(columns, None)?.0;
        let options = self.table_options(false)?;
        Ok(Statement::CreateTable { if_not_exists, name, columns, options })
    }

    fn stable_tail(
        &mut self,
        if_not_exists: bool,
        name: ObjectName,
        columns: Vec<Written>,
    ) -> Result<Statement> {
        self.expect(TokenKind::LeftParen)?;
        let tags = self.comma_separated(|p| p.column(TypePlace::Tag))?;
        self.expect(TokenKind::RightParen)?;
        let (columns, tags) = Self::check_columns(columns, Some(tags))?;
        let options = self.table_options(true)?;
        Ok(Statement::CreateStable { if_not_exists, name, columns, tags, options })
    }

    fn new_table_name(&mut self) -> Result<ObjectName> {
        let name = self.object_name(NameKind::Table)?;
        match &name.database {
            Some(database) if is_system_database(database) => Err(Error::text(
                Code::InvalidOperation,
                format!("Cannot create table of system database: `{database}`.`{}`", name.name),
            )),
            _ => Ok(name),
        }
    }

    fn column_list(&mut self) -> Result<Vec<Written>> {
        self.expect(TokenKind::LeftParen)?;
        let columns = self.comma_separated(|p| p.column(TypePlace::Column))?;
        self.expect(TokenKind::RightParen)?;
        Ok(columns)
    }

    fn column(&mut self, place: TypePlace) -> Result<Written> {
        let name = self.name(NameKind::Column)?;
        let data_type = self.written_type(place)?;
        let mut written = Written { name, data_type, storage: ColumnStorage::default(), is_key: false };
        if place == TypePlace::Column {
            written.is_key = self.key_words();
            written.storage = self.storage_options()?;
            written.storage.check(data_type)?;
            // The server that wrote a statement may have put the words last.
            written.is_key |= self.key_words();
        }
        Ok(written)
    }

    fn key_words(&mut self) -> bool {
        self.take_words(&["PRIMARY", "KEY"]) || self.take_words(&["COMPOSITE", "KEY"])
    }

    /// ENCODE, COMPRESS, LEVEL.
    fn storage_options(&mut self) -> Result<ColumnStorage> {
        let mut storage = ColumnStorage::default();
        loop {
            if self.take_word("ENCODE") {
                let text = self.string()?;
                let bad = || Error::text(Code::InvalidEncoding, format!("Invalid encode param: {text}"));
                storage.encoding = Some(Encoding::parse(&text).ok_or_else(bad)?);
            } else if self.take_word("COMPRESS") {
                let text = self.string()?;
                let bad = || Error::text(Code::InvalidCompression, format!("Invalid compress param: {text}"));
                storage.compression = Some(Compression::parse(&text).ok_or_else(bad)?);
            } else if self.take_word("LEVEL") {
                let text = self.string()?;
                let word = match text.to_ascii_lowercase().as_str() {
                    "h" => "high",
                    "m" => "medium",
                    "l" => "low",
                    _ => &text,
                };
                let bad =
                    || Error::text(Code::InvalidCompression, format!("Invalid compress level param: {text}"));
                storage.level = Some(Level::parse(word).ok_or_else(bad)?);
            } else {
                return Ok(storage);
            }
        }
    }

    /// The rules on a definition as a whole that need no catalogue.
    fn check_columns(
        columns: Vec<Written>,
        tags: Option<Vec<Written>>,
    ) -> Result<(Vec<ColumnSpec>, Vec<ColumnSpec>)> {
        if columns.first().is_none_or(|c| c.data_type != DataType::Timestamp) {
            return Err(Error::of(Code::FirstColumn));
        }
        if columns.iter().any(|c| c.data_type == DataType::Json) {
            return Err(Error::of(Code::OnlyTagJson));
        }
        if columns.len() < 2 {
            return Err(Error::of(Code::ColumnCount).hint("a table has at least two columns"));
        }
        if columns.iter().enumerate().any(|(at, column)| column.is_key && at != 1) {
            return Err(Error::of(Code::KeyPosition));
        }
        if let Some(key) = columns.iter().find(|column| column.is_key) {
            check_key_type(key.data_type)?;
        }
        if let Some(tags) = &tags
            && tags.len() > 1
            && tags.iter().any(|t| t.data_type == DataType::Json)
        {
            return Err(Error::of(Code::JsonTagOnly));
        }
        let mut names: Vec<&str> =
            columns.iter().chain(tags.iter().flatten()).map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            let name = twice.first().copied().unwrap_or_default();
            return Err(Error::of(Code::DuplicateColumn).hint(format!("{name} is named twice")));
        }
        check_columns(columns.iter().map(Written::named), None)?;
        if let Some(tags) = &tags {
            check_tags(tags.iter().map(Written::named), None)?;
        }
        let specs = |list: Vec<Written>| -> Vec<ColumnSpec> { list.into_iter().map(spec).collect() };
        Ok((specs(columns), tags.map(specs).unwrap_or_default()))
    }

    fn table_options(&mut self, stable: bool) -> Result<TableOptions> {
        let mut options = TableOptions::default();
        loop {
            if self.take_word("COMMENT") {
                options.comment = Some(self.comment()?);
            } else if self.take_word("TTL") {
                options.ttl_days = Some(self.ttl(stable)?);
            } else if self.take_word("SMA") {
                self.expect(TokenKind::LeftParen)?;
                self.comma_separated(|p| p.name(NameKind::Column))?;
                self.expect(TokenKind::RightParen)?;
            } else if self.take_word("ROLLUP") {
                self.expect(TokenKind::LeftParen)?;
                self.expect(TokenKind::Word)?;
                self.expect(TokenKind::RightParen)?;
            } else if ["MAX_DELAY", "WATERMARK", "DELETE_MARK"].into_iter().any(|w| self.take_word(w)) {
                self.comma_separated(|p| p.expect(TokenKind::Duration))?;
            } else if stable && self.at_word("KEEP") {
                return Err(self.unsupported("KEEP of a super table"));
            } else if self.at_word("VIRTUAL") {
                let token = self.bump();
                if self.integer()? != 0 {
                    return Err(self.unsupported_at("VIRTUAL tables", token));
                }
            } else {
                return Ok(options);
            }
        }
    }

    fn comment(&mut self) -> Result<String> {
        let comment = self.string()?;
        if comment.len() > COMMENT_BYTES_MAX {
            return Err(Error::of(Code::CommentTooLong));
        }
        Ok(comment)
    }

    fn ttl(&mut self, stable: bool) -> Result<u32> {
        let days = self.integer()?;
        if stable {
            let text =
                "Only supported for create non-super table in databases configured with the 'TTL' option";
            return Err(Error::text(Code::InvalidTableOption, text));
        }
        u32::try_from(days).ok().filter(|&d| i32::try_from(d).is_ok()).ok_or_else(|| {
            let text = format!("Invalid table option ttl: {days}, valid range: [0, {}]", i32::MAX);
            Error::text(Code::InvalidTableOption, text)
        })
    }

    fn create_children(&mut self) -> Result<Statement> {
        let mut children = Vec::new();
        loop {
            let if_not_exists = self.if_not_exists()?;
            let name = self.new_table_name()?;
            self.expect_word("USING")?;
            let stable = self.object_name(NameKind::Table)?;
            let tag_names = if self.take(TokenKind::LeftParen) {
                let names = self.comma_separated(|p| p.name(NameKind::Column))?;
                self.expect(TokenKind::RightParen)?;
                Some(names)
            } else {
                None
            };
            self.expect_word("TAGS")?;
            self.expect(TokenKind::LeftParen)?;
            let values = self.comma_separated(Self::tag_literal)?;
            self.expect(TokenKind::RightParen)?;
            let options = self.table_options(false)?;
            children.push(CreateChild { if_not_exists, name, stable, tag_names, values, options });
            if !self.at_name() && !self.at_word("IF") {
                return Ok(Statement::CreateChildren(children));
            }
        }
    }

    /// A constant, optionally `± duration`.
    fn tag_literal(&mut self) -> Result<TagLiteral> {
        let start = self.peek();
        let signed = self.take(TokenKind::Minus) || self.take(TokenKind::Plus);
        let token = self.peek();
        match token.kind {
            TokenKind::Integer | TokenKind::Float | TokenKind::Radix => {}
            TokenKind::Text if !signed => {}
            TokenKind::Word if !signed => {
                let word = self.text_of(token).to_ascii_lowercase();
                if !matches!(word.as_str(), "null" | "true" | "false" | "now" | "today") {
                    return Err(self.unexpected());
                }
            }
            _ => return Err(self.unexpected()),
        }
        self.bump();
        if token.kind == TokenKind::Word && self.take(TokenKind::LeftParen) {
            self.expect(TokenKind::RightParen)?;
        }
        if self.take(TokenKind::Plus) || self.take(TokenKind::Minus) {
            self.expect(TokenKind::Duration)?;
        } else if token.kind == TokenKind::Text {
            let source = self.text_of(token);
            let hex = source.get(1..).is_some_and(|inner| inner.starts_with("\\x"));
            return Ok(TagLiteral { text: unquote_text(source).into_owned(), quoted: true, hex });
        }
        Ok(TagLiteral { text: self.source_from(start.start).to_owned(), quoted: false, hex: false })
    }

    pub(super) fn drop_tables(&mut self) -> Result<Statement> {
        let tables = self.comma_separated(|p| {
            Ok(DropTable { if_exists: p.if_exists()?, name: p.object_name(NameKind::Table)? })
        })?;
        Ok(Statement::DropTables(tables))
    }

    pub(super) fn alter_table(&mut self, stable: bool) -> Result<Statement> {
        let name = self.object_name(NameKind::Table)?;
        let change = self.table_change(stable)?;
        Ok(Statement::AlterTable { stable, name, change })
    }

    fn table_change(&mut self, stable: bool) -> Result<AlterTable> {
        if self.take_words(&["ADD", "COLUMN"]) {
            return self.added(TypePlace::Column).map(AlterTable::AddColumn);
        }
        if self.take_words(&["ADD", "TAG"]) {
            return self.added(TypePlace::Tag).map(AlterTable::AddTag);
        }
        if self.take_words(&["DROP", "COLUMN"]) {
            return self.name(NameKind::Column).map(AlterTable::DropColumn);
        }
        if self.take_words(&["DROP", "TAG"]) {
            return self.name(NameKind::Column).map(AlterTable::DropTag);
        }
        if self.take_words(&["MODIFY", "COLUMN"]) {
            let name = self.name(NameKind::Column)?;
            if ["ENCODE", "COMPRESS", "LEVEL"].iter().any(|w| self.at_word(w)) {
                return Ok(AlterTable::ModifyStorage { name, storage: self.storage_options()? });
            }
            return Ok(AlterTable::ModifyColumn { name, data_type: self.new_type(TypePlace::Column)? });
        }
        if self.take_words(&["MODIFY", "TAG"]) {
            let name = self.name(NameKind::Column)?;
            return Ok(AlterTable::ModifyTag { name, data_type: self.new_type(TypePlace::Tag)? });
        }
        if self.take_words(&["RENAME", "COLUMN"]) {
            let (name, new_name) = (self.name(NameKind::Column)?, self.name(NameKind::Column)?);
            if stable {
                let text = "Rename column only available for normal table";
                return Err(Error::text(Code::InvalidAlter, text));
            }
            return Ok(AlterTable::RenameColumn { name, new_name });
        }
        if self.take_words(&["RENAME", "TAG"]) {
            let (name, new_name) = (self.name(NameKind::Column)?, self.name(NameKind::Column)?);
            return Ok(AlterTable::RenameTag { name, new_name });
        }
        if !stable && self.take_words(&["SET", "TAG"]) {
            let tags = self.comma_separated(|p| {
                let name = p.name(NameKind::Column)?;
                p.expect(TokenKind::Eq)?;
                Ok((name, p.tag_literal()?))
            })?;
            return Ok(AlterTable::SetTags(tags));
        }
        if self.at_word("KEEP") {
            return Err(self.unsupported("KEEP of a super table"));
        }
        if self.at_word("COMMENT") || self.at_word("TTL") {
            return self.table_options(stable).map(AlterTable::Options);
        }
        let changes = match stable {
            true => "ADD, DROP, MODIFY or RENAME, then COLUMN or TAG; COMMENT",
            false => "ADD, DROP, MODIFY or RENAME, then COLUMN; SET TAG; COMMENT; TTL",
        };
        Err(self.unexpected().hint(format!("changes are {changes}")))
    }

    fn added(&mut self, place: TypePlace) -> Result<ColumnSpec> {
        let written = self.column(place)?;
        check_json(place, written.data_type)?;
        if written.is_key {
            return Err(Error::of(Code::KeyChange));
        }
        Ok(spec(written))
    }

    fn new_type(&mut self, place: TypePlace) -> Result<DataType> {
        let data_type = self.written_type(place)?;
        check_json(place, data_type)?;
        Ok(data_type)
    }
}

/// A JSON tag comes with its super table, alone, and no column is JSON.
fn check_json(place: TypePlace, data_type: DataType) -> Result<()> {
    match (data_type, place) {
        (DataType::Json, TypePlace::Tag) => Err(Error::of(Code::JsonTagOnly)),
        (DataType::Json, _) => Err(Error::of(Code::OnlyTagJson)),
        _ => Ok(()),
    }
}

fn spec(written: Written) -> ColumnSpec {
    ColumnSpec {
        data_type: written.data_type,
        name: written.name,
        encoding: written.storage.encoding,
        compression: written.storage.compression,
        level: written.storage.level,
        is_key: written.is_key,
    }
}
