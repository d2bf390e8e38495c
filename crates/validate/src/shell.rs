//! Words for the shell.

/// One word for the shell, whatever is in it; as it is where the shell sees nothing in it.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_shell_sees_a_place_as_one_word() {
        for plain in ["/tmp/a-b.c/0", "a/b-1.x"] {
            assert_eq!(shell_word(plain), plain);
        }
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        for odd in ["/tmp/a b", "/tmp/it's", "/tmp/$(x);y", "/tmp/\"q\"", "$x", ""] {
            let said = Command::new("sh").arg("-c").arg(format!("printf %s {}", shell_word(odd))).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), odd);
        }
    }
}
