//! `kvorum context`: saves clusters by name, and chooses the one that commands use.

use crate::failure::Failure;
use crate::stdout::{print_json, print_lines};
use crate::text::report_line;
use crate::values::url;
use clap::{Args, Subcommand};
use cli::access::{self, TrustOptions};
use cli::contexts::{self, Contexts};
use cluster::NodeUrl;
use units::{Columns, lines_of};

pub(crate) const HELP: &str = "\
Examples:
  kvorum context add prod --url https://a:8080,https://b:8080 --ca ca.pem --token-file ~/.token
  kvorum context list
  kvorum context use prod
  kvorum get user/1 --context test

Contexts are in kvorum/contexts.toml in XDG_CONFIG_HOME, or in ~/.config. It names the files of \
tokens and keys, and holds none of them.";

/// What to do with contexts.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Save a cluster by a name; the first one becomes the current context
    Add(AddOptions),
    /// Print all contexts; the current one is marked with *
    List(ListOptions),
    /// Make a context the current one
    Use(NameOption),
    /// Remove a context
    Remove(NameOption),
}

/// The options of `context add`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AddOptions {
    #[command(flatten)]
    name: NameOption,
    /// The nodes of the cluster, with commas or with the option repeated
    #[arg(long = "url", required = true, value_parser = url, value_name = "URL",
        value_delimiter = ',', help_heading = "Nodes")]
    urls: Vec<NodeUrl>,
    #[command(flatten)]
    trust: TrustOptions,
    /// Replace the context if there is one of this name
    #[arg(long, help_heading = None)]
    replace: bool,
    /// Make it the current context
    #[arg(long = "use", help_heading = None)]
    makes_current: bool,
}

/// The options of `context list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListOptions {
    /// Print JSON for programs instead of a table
    #[arg(long)]
    json: bool,
}

/// The context that a command is about.
#[derive(Args, Clone, Debug)]
pub(crate) struct NameOption {
    /// The name of the context
    #[arg(value_name = "NAME", value_parser = contexts::name)]
    name: String,
}

/// Does what the options say.
///
/// # Errors
/// A context that does not exist, or exists; files that cannot be read or written.
pub(crate) fn run(command: &ContextCommand) -> Result<(), Failure> {
    let mut contexts = Contexts::read()?;
    let done = match command {
        ContextCommand::List(options) if options.json => return print_json(&contexts),
        ContextCommand::List(_) => {
            print_lines(lines(&contexts))?;
            if contexts.context.is_empty() {
                report_line("no context is saved: 'kvorum context add' saves one");
            }
            access::winning_variable().inspect(|line| report_line(line));
            return Ok(());
        }
        ContextCommand::Add(options) => add(&mut contexts, options)?,
        ContextCommand::Use(NameOption { name }) => {
            contexts.get(name)?;
            contexts.current = Some(name.clone());
            match access::winning_variable() {
                Some(line) => format!("{name} is the current context, but {line}"),
                None => format!("{name} is the current context"),
            }
        }
        ContextCommand::Remove(NameOption { name }) => remove(&mut contexts, name)?,
    };
    contexts.write()?;
    report_line(&done);
    Ok(())
}

fn add(contexts: &mut Contexts, options: &AddOptions) -> Result<String, Failure> {
    let NameOption { name } = &options.name;
    if contexts.context.contains_key(name) && !options.replace {
        return Err(Failure::usage(format!(
            "there is a context {name}: give --replace to replace it, or choose another name"
        )));
    }
    let context = options.trust.context(&options.urls)?;
    if options.makes_current || contexts.context.is_empty() {
        contexts.current = Some(name.clone());
    }
    contexts.context.insert(name.clone(), context);
    Ok(if contexts.current.as_ref() == Some(name) {
        format!("{name} is saved, and is the current context")
    } else {
        format!("{name} is saved: 'kvorum context use {name}' makes it the current context")
    })
}

fn remove(contexts: &mut Contexts, name: &str) -> Result<String, Failure> {
    contexts.get(name)?;
    contexts.context.remove(name);
    if contexts.current.as_deref() != Some(name) {
        return Ok(format!("{name} is removed"));
    }
    contexts.current = None;
    Ok(format!(
        "{name} is removed: no context is current, so commands ask the node of this machine"
    ))
}

/// A line for each context.
fn lines(contexts: &Contexts) -> Vec<String> {
    let rows = contexts.context.iter().map(|(name, context)| {
        let is_current = contexts.current.as_ref() == Some(name);
        let sign = if is_current { "*" } else { "" };
        let token = context.token_file.as_ref();
        let token = token.map_or_else(String::new, |file| format!("token in {}", file.display()));
        [sign.to_owned(), name.clone(), context.urls.join(","), token]
    });
    lines_of(Columns::Left, &rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        options: AddOptions,
    }

    fn added(contexts: &mut Contexts, words: &[&str]) -> Result<String, Failure> {
        let words = Words::try_parse_from([&["add"], words].concat()).unwrap();
        add(contexts, &words.options)
    }

    #[test]
    fn the_first_context_is_current_until_another_is_chosen() {
        let mut contexts = Contexts::default();
        let first = added(&mut contexts, &["prod", "--url=http://a:1,http://b:1"]);
        assert_eq!(first.unwrap(), "prod is saved, and is the current context");
        let second = added(&mut contexts, &["test", "--url=http://c:1"]).unwrap();
        assert!(second.contains("kvorum context use test"), "{second}");
        assert_eq!(
            lines(&contexts),
            ["*  prod  http://a:1,http://b:1", "   test  http://c:1"]
        );

        let again = added(&mut contexts, &["test", "--url=http://d:1"]).unwrap_err();
        assert_eq!(again.code(), 2);
        assert!(again.line().contains("--replace"), "{}", again.line());
        let replaced = ["test", "--url=http://d:1", "--replace", "--use"];
        added(&mut contexts, &replaced).unwrap();
        assert_eq!(contexts.context["test"].urls, ["http://d:1"]);
        assert_eq!(contexts.current.as_deref(), Some("test"));

        assert_eq!(remove(&mut contexts, "prod").unwrap(), "prod is removed");
        remove(&mut contexts, "prod").unwrap_err();
        let last = remove(&mut contexts, "test").unwrap();
        assert!(last.contains("no context is current"), "{last}");
        assert_eq!(contexts, Contexts::default());
    }

    #[test]
    fn what_cannot_be_used_is_not_saved() {
        let mut contexts = Contexts::default();
        let words = ["prod", "--url=https://a:1", "--ca=/nowhere/ca.pem"];
        let refused = added(&mut contexts, &words).unwrap_err();
        assert!(
            refused.line().contains("/nowhere/ca.pem"),
            "{}",
            refused.line()
        );
        assert_eq!(contexts, Contexts::default());
    }
}
