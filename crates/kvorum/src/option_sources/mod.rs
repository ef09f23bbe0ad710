//! Collects the options of `serve` from the command line, then the environment, then a file, then
//! their defaults.
//!
//! The definition of the program, which the caller passes, is the only list of
//! options. An option `--read-threads` of its command `serve` is also
//! `KVORUM_READ_THREADS` in the environment and `read-threads` in the file.
//! `--config` cannot be set in the file, hidden options in neither, and an option that is
//! for one start is refused in both.
//!
//! The settings of the environment and the file are turned into arguments,
//! without those that a stronger layer sets, and all are parsed as one command
//! line. So each layer has the same checks and the same messages. Crates that
//! merge layers (`figment`, `config`) need each option a second time, as a field
//! that serde reads, and have messages of their own. The variables of clap know
//! no file, and clap does not name the variable when it refuses the value.
//!
//! A file is written by hand for this program, so an unknown key is refused. An
//! unknown variable `KVORUM_…` only causes a warning, because Kubernetes gives
//! every container such variables (`KVORUM_SERVICE_HOST`, `KVORUM_PORT`) as
//! soon as a service is called `kvorum`.

use crate::access;
use crate::exit_codes;
use crate::failure::Failure;
use crate::files::ReadFile;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Parser};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct Parsed<P> {
    /// The options of all layers.
    pub(crate) program: P,
    /// Warnings for the log: the variables that were ignored.
    pub(crate) warnings: Vec<String>,
    /// The origins of options that the command line does not set: the option's
    /// name, and its variable or the file and its key.
    origins: Vec<(String, String)>,
}

impl<P> Parsed<P> {
    /// The failure for a refused option, which names where it was set.
    pub(crate) fn refuse(&self, error: &OptionError) -> Failure {
        let origin = self.origins.iter().find(|(name, _)| *name == error.option);
        match origin {
            Some((_, origin)) => Failure::usage(&*error.problem).with_origin(origin),
            None => Failure::usage(&*error.problem).with_origin(&format!("--{}", error.option)),
        }
    }
}

/// An option that contradicts the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionError {
    /// Its name after `--`.
    pub(crate) option: String,
    /// What is wrong with it, and what to do.
    pub(crate) problem: String,
}

impl OptionError {
    pub(crate) fn new(option: &str, problem: impl Into<String>) -> Self {
        Self {
            option: option.to_owned(),
            problem: problem.into(),
        }
    }
}

/// Why there is no command to run.
#[derive(Debug)]
pub(crate) enum EarlyExit {
    /// The user asked for help or the version.
    Show(clap::Error),
    /// An option is wrong.
    Refuse(Failure),
}

impl From<Failure> for EarlyExit {
    fn from(failure: Failure) -> Self {
        Self::Refuse(failure)
    }
}

impl From<clap::Error> for EarlyExit {
    fn from(error: clap::Error) -> Self {
        use clap::error::ErrorKind;
        match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Self::Show(error),
            _ => Self::Refuse(Failure::from_clap(&error)),
        }
    }
}

/// An option that each layer may set.
pub(crate) struct LayeredOption {
    id: String,
    /// Its name after `--`, which is its key in the file.
    pub(crate) name: String,
}

impl LayeredOption {
    /// The options of `serve` that each layer may set, in the order of
    /// `--help`.
    pub(crate) fn all(program: &Command) -> Vec<Self> {
        let serve = program.find_subcommand(SERVE);
        let arguments = serve.into_iter().flat_map(|serve| serve.get_arguments());
        arguments
            .filter(|argument| !argument.is_hide_set() && argument.get_id() != CONFIG)
            .filter_map(|argument| {
                Some(Self {
                    id: argument.get_id().to_string(),
                    name: argument.get_long()?.to_owned(),
                })
            })
            .collect()
    }

    /// Whether the option gives something up at one start, and must not do so at each.
    pub(crate) fn is_for_one_start(&self) -> bool {
        FOR_ONE_START.contains(&&*self.name)
    }

    /// Its name in the environment.
    pub(crate) fn variable(&self) -> String {
        format!(
            "{VARIABLE_PREFIX}{}",
            self.name.replace('-', "_").to_ascii_uppercase()
        )
    }
}

/// Options that only the command line sets.
const FOR_ONE_START: [&str; 2] = ["accept-data-loss", "drop-future-versions"];

const SERVE: &str = "serve";
/// The command that checks what `serve` would do has the same options.
const ADMIN: &str = "admin";
const CHECK: &str = "check";
const CONFIG: &str = "config";
const CONFIG_VARIABLE: &str = "KVORUM_CONFIG";
const VARIABLE_PREFIX: &str = "KVORUM_";

/// Parses `arguments` (the program's name first) as `P` defines them. For
/// `serve` and `admin check`, options that they do not set come from the environment and the
/// file.
///
/// # Errors
/// [`EarlyExit::Refuse`] with exit code 2 if any layer holds a wrong value,
/// also if a stronger layer overrides it.
pub(crate) fn parse<P: Parser>(
    arguments: &[OsString],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    read_file: ReadFile<'_>,
) -> Result<Parsed<P>, EarlyExit> {
    let program = exit_codes::in_help(P::command());
    let matches = program.clone().try_get_matches_from(arguments)?;
    let Some((words, given)) = options_of_a_node(&matches) else {
        return Ok(Parsed {
            program: P::from_arg_matches(&matches)?,
            warnings: Vec::new(),
            origins: Vec::new(),
        });
    };

    let known = KnownOptions {
        keys: LayeredOption::all(&program),
        program,
    };
    let variables = EnvironmentSettings::read(&known, environment)?;
    let file = match given
        .get_one::<PathBuf>(CONFIG)
        .or(variables.config.as_ref())
    {
        Some(file) => file_settings(&known, file, read_file)?,
        None => Vec::new(),
    };

    // The name of the program and the command stay first.
    let mut all: Vec<OsString> = arguments.iter().take(1 + words).cloned().collect();
    let mut origins = Vec::new();
    for (index, key) in known.keys.iter().enumerate() {
        if is_given(given, key) {
            continue;
        }
        let mut layers = variables.settings.iter().chain(&file);
        if let Some(setting) = layers.find(|setting| setting.key == index) {
            all.push(setting.argument.clone());
            origins.push((key.name.clone(), setting.origin.clone()));
        }
    }
    all.extend(arguments.iter().skip(1 + words).cloned());
    let matches = known.program.try_get_matches_from(all)?;
    Ok(Parsed {
        program: P::from_arg_matches(&matches)?,
        warnings: variables.warnings,
        origins,
    })
}

/// How many words the command has, and its options, if they are those of a node.
fn options_of_a_node(matches: &ArgMatches) -> Option<(usize, &ArgMatches)> {
    match matches.subcommand()? {
        (SERVE, given) => Some((1, given)),
        (ADMIN, below) => match below.subcommand()? {
            (CHECK, given) => Some((2, given)),
            _ => None,
        },
        _ => None,
    }
}

/// The options that the layers know.
struct KnownOptions {
    program: Command,
    keys: Vec<LayeredOption>,
}

impl KnownOptions {
    fn position(&self, is_it: impl Fn(&LayeredOption) -> bool) -> Option<usize> {
        self.keys.iter().position(is_it)
    }

    /// The option that the user may have meant by an unknown name, according to
    /// the parser's own rule.
    fn similar(&self, name: &str) -> Option<String> {
        let argument = format!("--{name}");
        let program = self.program.clone();
        let refused = program
            .try_get_matches_from(["kvorum", SERVE, &argument])
            .err()?;
        match refused.get(ContextKind::SuggestedArg)? {
            ContextValue::String(known) => Some(known.trim_start_matches('-').to_owned()),
            _ => None,
        }
    }
}

fn is_given(matches: &ArgMatches, key: &LayeredOption) -> bool {
    matches.value_source(&key.id) == Some(ValueSource::CommandLine)
}

/// A value from the environment or the file.
struct Setting {
    /// The index of its option.
    key: usize,
    /// `--name=value`.
    argument: OsString,
    /// The variable, or the file and its key.
    origin: String,
}

impl Setting {
    /// Checks `value` alone, so that a refusal can name its `origin`.
    fn new(known: &KnownOptions, key: usize, value: &OsStr, origin: &str) -> Result<Self, Failure> {
        let name = &known.keys[key].name;
        if known.keys[key].is_for_one_start() {
            let line = format!(
                "it is for one start, but every start reads it here: give --{name} once, on the \
                 command line"
            );
            return Err(Failure::usage(line).with_origin(origin));
        }
        let mut argument = OsString::from("--");
        argument.push(name);
        argument.push("=");
        argument.push(value);
        let alone = [OsStr::new("kvorum"), OsStr::new(SERVE), &argument];
        let program = known.program.clone();
        program
            .try_get_matches_from(alone)
            .map_err(|error| Failure::from_clap(&error).with_origin(origin))?;
        Ok(Self {
            key,
            argument,
            origin: origin.to_owned(),
        })
    }
}

/// The settings of the environment.
struct EnvironmentSettings {
    settings: Vec<Setting>,
    config: Option<PathBuf>,
    warnings: Vec<String>,
}

impl EnvironmentSettings {
    fn read(
        known: &KnownOptions,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Failure> {
        let mut found: Vec<(String, OsString)> = environment
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
            .collect();
        // The system lists variables in any order; the messages have a fixed
        // one.
        found.sort();
        let mut variables = Self {
            settings: Vec::new(),
            config: None,
            warnings: Vec::new(),
        };
        for (name, value) in found {
            if access::CLIENT_VARIABLES.contains(&&*name) {
                // They are for commands that speak with nodes.
            } else if name == CONFIG_VARIABLE {
                variables.config = Some(value.into());
            } else if let Some(key) = known.position(|key| key.variable() == name) {
                let setting = Setting::new(known, key, &value, &name)?;
                variables.settings.push(setting);
            } else {
                let wanted = name[VARIABLE_PREFIX.len()..].to_ascii_lowercase();
                let meant = known
                    .similar(&wanted.replace('_', "-"))
                    .and_then(|meant| known.keys.iter().find(|key| key.name == meant));
                let tip = meant.map_or_else(String::new, |key| {
                    format!(": did you mean {}?", key.variable())
                });
                let warning = format!(
                    "the variable {name} does not set any option and is \
                                       ignored{tip}"
                );
                variables.warnings.push(warning);
            }
        }
        Ok(variables)
    }
}

/// Reads the settings of the file: a flat TOML table whose keys are the names
/// of options.
fn file_settings(
    known: &KnownOptions,
    file: &Path,
    read_file: ReadFile<'_>,
) -> Result<Vec<Setting>, Failure> {
    let name = file.display();
    let text = read_file(file).map_err(|error| {
        Failure::usage(format!("cannot read the configuration {name}: {error}"))
    })?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        let what = error.message().replace('\n', " ");
        Failure::usage(format!("{name}, line {line}: {what}"))
    })?;
    let mut settings = Vec::new();
    for (key_name, value) in &table {
        let origin = format!("{name}: {key_name}");
        let Some(key) = known.position(|key| key.name == *key_name) else {
            let tip = match known.similar(key_name) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "see 'kvorum serve --help' for the names".to_owned(),
            };
            let line = format!("there is no such option; {tip}");
            return Err(Failure::usage(line).with_origin(&origin));
        };
        let Some(value) = as_argument(value) else {
            let line = "write a string, a number, true, false, or a list of strings";
            return Err(Failure::usage(line).with_origin(&origin));
        };
        settings.push(Setting::new(known, key, OsStr::new(&value), &origin)?);
    }
    Ok(settings)
}

/// A TOML value as it would be written on the command line.
fn as_argument(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(if *on { "on" } else { "off" }.to_owned()),
        toml::Value::Array(values) => {
            let texts: Option<Vec<&str>> = values.iter().map(toml::Value::as_str).collect();
            Some(texts?.join(","))
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests;
