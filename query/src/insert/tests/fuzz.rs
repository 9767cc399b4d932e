use proptest::prelude::*;

use super::*;

const SOUP: &[&str] = &[
    "INSERT",
    "INTO",
    "t",
    "m",
    "c",
    "w",
    "k1",
    "`K 1`",
    "g.t",
    "USING",
    "TAGS",
    "VALUES",
    "(",
    ")",
    "(",
    ")",
    ",",
    ",",
    "ts",
    "i",
    "tbname",
    "no",
    "site",
    "1",
    "-1",
    "1.5",
    "1e3",
    "0x1F",
    "'x'",
    "''",
    "'2024-01-01'",
    "now",
    "now()",
    "+",
    "-",
    "1d",
    "NULL",
    "true",
    ";",
    ".",
    "'",
    "\"",
    "`",
    "\\",
    "?",
    "--",
    "/*",
    "*/",
    "é",
    "FILE",
    "SELECT",
    "\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_parsed_or_refused(rest in "\\PC{0,80}") {
        let mut fake = Fake::new(Precision::Ms, 2);
        let _ = parse_insert(&rest, &context(), &mut fake);
        let _ = parse_insert(&format!("INSERT INTO {rest}"), &context(), &mut fake);
        let _ = parse_insert(&format!("INSERT INTO w VALUES ({rest}"), &context(), &mut fake);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = parse_insert(&format!("INSERT INTO t VALUES {text}"), &context(), &mut Fake::new(Precision::Ms, 2));
    }

    #[test]
    fn any_soup_of_tokens_is_parsed_or_refused(words in prop::collection::vec(prop::sample::select(SOUP), 0..40)) {
        let mut fake = Fake::new(Precision::Us, 3);
        for start in ["INSERT INTO ", "INSERT INTO t VALUES (", "INSERT INTO m (tbname, ts, no) VALUES ("] {
            let sql = format!("{start}{}", words.join(" "));
            match parse_insert(&sql, &context(), &mut fake) {
                Ok(plan) => check_invariants(&plan, &fake.keys()),
                Err(error) => prop_assert!(!error.message().is_empty()),
            }
        }
    }
}
