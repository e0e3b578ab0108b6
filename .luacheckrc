-- The scripts run inside the server: Lua 5.1, its globals, nothing of the operating system.
std = "lua51"
read_globals = { "redis", "cjson", "cmsgpack", "bit", "struct", "KEYS", "ARGV" }
not_globals = {
  "arg", "debug", "dofile", "io", "load", "loadfile", "module", "newproxy", "os", "package",
  "print", "require",
}
max_line_length = 120
max_comment_line_length = 200 -- a script's list of includes is one line
ignore = {
  "211/k_.*", -- every script may get more of the key helpers than it uses
  "431",      -- a helper's parameter may be named as one of the script's arguments
}
