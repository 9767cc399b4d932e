use super::*;

#[test]
fn smoke() {
    parse("SELECT 1").unwrap();
}
