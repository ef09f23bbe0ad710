//! Text that is cheap to copy.

use std::borrow::{Borrow, Cow};
use std::ops::Deref;
use std::sync::Arc;

/// A text that borrows from an entity or an expression, or shares what was made of them. A copy
/// takes no memory, however long the text is.
#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl<'a> From<Cow<'a, str>> for Text<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Borrowed(text),
            Cow::Owned(text) => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::values::Value;
    use crate::values::json;

    #[test]
    fn a_copy_of_a_text_shares_its_bytes() {
        for part in [r#""plain""#, r#""of an\nescape""#] {
            let Some(Value::Text(text)) = json::value_of(part) else {
                panic!("{part} is text");
            };
            let copy = text.clone();
            assert_eq!(copy.as_ptr(), text.as_ptr(), "{part}");
        }
    }
}
