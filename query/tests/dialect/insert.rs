//! INSERT for the tests: enough to fill tables, by the library's own rules for values.

use model::DurationLiteral;

/// A value as written.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) quoted: bool,
    /// What stands behind a quoted text: `+1d`.
    pub(crate) behind: String,
}

/// Rows for one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) table: String,
    pub(crate) using: Option<(String, Option<Vec<String>>, Vec<Token>)>,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) rows: Vec<Vec<Token>>,
}

/// Reads `INSERT INTO t [USING s [(..)] TAGS (..)] [(..)] VALUES (..) (..) t2 ..`.
pub(crate) fn blocks(sql: &str) -> Vec<Block> {
    let tokens = tokens(sql);
    let mut at = 2;
    let mut blocks = Vec::new();
    while at < tokens.len() {
        let mut block = Block { table: tokens[at].text.clone(), ..Block::default() };
        at += 1;
        loop {
            let word = tokens.get(at).map(|t| t.text.to_lowercase());
            match word.as_deref() {
                Some("using") => {
                    let stable = tokens[at + 1].text.clone();
                    at += 2;
                    let names = (tokens[at].text == "(").then(|| list(&tokens, &mut at));
                    assert!(tokens[at].text.eq_ignore_ascii_case("tags"), "{sql}");
                    at += 1;
                    let values = list(&tokens, &mut at);
                    let names = names.map(|n| n.into_iter().map(|t| t.text).collect());
                    block.using = Some((stable, names, values));
                }
                Some("(") => {
                    block.columns = Some(list(&tokens, &mut at).into_iter().map(|t| t.text).collect());
                }
                Some("values") => {
                    at += 1;
                    while tokens.get(at).is_some_and(|t| t.text == "(" || t.text == ",") {
                        if tokens[at].text == "," {
                            at += 1;
                            continue;
                        }
                        block.rows.push(list(&tokens, &mut at));
                    }
                    break;
                }
                other => panic!("unexpected {other:?} in {sql}"),
            }
        }
        blocks.push(block);
    }
    blocks
}

/// A parenthesized list; several bare tokens of one value are joined.
fn list(tokens: &[Token], at: &mut usize) -> Vec<Token> {
    *at += 1;
    let mut items: Vec<Token> = Vec::new();
    let mut fresh = true;
    while tokens[*at].quoted || tokens[*at].text != ")" {
        let token = &tokens[*at];
        *at += 1;
        if !token.quoted && token.text == "," {
            fresh = true;
        } else if fresh {
            items.push(token.clone());
            fresh = false;
        } else if let Some(last) = items.last_mut() {
            if last.quoted { last.behind.push_str(&token.text) } else { last.text.push_str(&token.text) }
        }
    }
    *at += 1;
    items
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = sql.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\n' | ';' => {}
            '(' | ')' | ',' => {
                tokens.push(Token { text: c.to_string(), quoted: false, behind: String::new() })
            }
            '`' => {
                let text = chars.by_ref().take_while(|c| *c != '`').collect();
                tokens.push(Token { text, quoted: false, behind: String::new() });
            }
            '\'' | '"' => {
                let mut text = String::new();
                while let Some(n) = chars.next() {
                    if n == c {
                        if chars.peek() == Some(&c) {
                            chars.next();
                        } else {
                            break;
                        }
                        text.push(c);
                    } else if n == '\\' {
                        match chars.next() {
                            Some('n') => text.push('\n'),
                            Some(e @ ('%' | '_')) => text.extend(['\\', e]),
                            Some(e) => text.push(e),
                            None => {}
                        }
                    } else {
                        text.push(n);
                    }
                }
                tokens.push(Token { text, quoted: true, behind: String::new() });
            }
            c => {
                let mut text = c.to_string();
                while let Some(n) = chars.peek() {
                    if " (),'\"\n;".contains(*n) {
                        break;
                    }
                    text.push(*n);
                    chars.next();
                }
                tokens.push(Token { text, quoted: false, behind: String::new() });
            }
        }
    }
    tokens
}

/// `now+1d` taken apart.
pub(crate) fn shift(text: &str) -> Option<(&str, DurationLiteral)> {
    let at = text.rfind(['+', '-'])?;
    let mut shift = DurationLiteral::parse(&text[at + 1..])?;
    if text.as_bytes()[at] == b'-' {
        shift.count = -shift.count;
    }
    Some((&text[..at], shift))
}
