#!lua flags=no-writes
-- args: commands names
-- resend: yes
-- Which of these the user who asks may not use: commands, by name (other words are passed over), and keys, to
-- read and write.
-- Reply: commands, keys
--
-- Asked as whole commands: servers have looked for keys behind the end of what they were given.
local function may_not(...)
  local is_command, may = pcall(redis.acl_check_cmd, ...)
  return is_command and not may
end

local denied, shut = {}, {}
local probe = 'incrby' -- reads and writes; a name in capitals would be taken for one of a command that is called
for _, command in ipairs(commands) do
  local name, part = command:match('^(%u+) ?(%u*)$')
  if part == '' and may_not(name, k_config, k_config, k_config) or part ~= '' and may_not(name, part, '') then
    denied[#denied + 1] = command
  end
end
for _, name in ipairs(names) do
  if may_not(probe, name, '1') and not may_not(probe, k_config, '1') then
    shut[#shut + 1] = name
  end
end
return { denied, shut }
