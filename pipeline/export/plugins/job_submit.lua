-- Written by `walltime export --for slurm`; do not edit: export again. Format of the look-up: docs/lookup_file.md.
--
-- Slurm's job_submit plug-in (JobSubmitPlugins=lua). At each submit it looks up the job's estimated runtime in the file
-- walltime.lookup beside slurm.conf, and sets the time limit to a quantile of it, so that Slurm plans with what the job
-- will need. `walltime guard` raises the limit of a running job before the job reaches it, at most to the request, which
-- AdminComment keeps. So a limit is set only while the guard's heartbeat, a file beside the look-up, is recent.
-- What memory such jobs needed is said, and never set. The plug-in loads nothing but the look-up's first lines, and these
-- only when they have changed.
-- A new look-up is installed by renaming it over the old one. Any error leaves the job as it was submitted.
--
-- A site with a job_submit.lua of its own calls this one from there:
--     dofile("/etc/slurm/walltime_submit.lua")            -- this file, under another name
--     function slurm_job_submit(job, parts, uid) walltime_adjust(job, parts) ... end
--
-- Runs under Lua 5.1 to 5.4: numbers may be doubles, and there are no bit operations.

local SETTINGS = --@SETTINGS@
local RULES = --@RULES@

local FORMAT = "#walltime-lookup 4 "
local ENTRY_BYTES, PRIME, MOST_BYTES = 13, 2147483647, 1048576
local MOST_CHARACTERS, MOST_NAMES, MOST_STEPS = 256, 4096, 100000
local NO_VAL, INFINITE = 4294967294, 4294967295
local OPT_OUT_WORD = "walltime:off"

-- ---------------------------------------------------------------- patterns
local steps = 0

local function members(ranges)
  local set = {}
  for at = 1, #ranges, 2 do
    for code = ranges:byte(at), ranges:byte(at + 1) do set[code] = true end
  end
  return set
end

local sequence_matcher

-- Each maker returns a function (text, position) -> position behind the match, or nil; `follow` matches what comes next.
local makers = {
  set = function(node, follow)
    local set = members(node[2])
    return function(text, at) if set[text:byte(at)] then return follow(text, at + 1) end end
  end,
  start = function(_, follow)
    return function(text, at) if at == 1 then return follow(text, at) end end
  end,
  ["end"] = function(_, follow)
    return function(text, at)
      if at == #text + 1 or (at == #text and text:sub(at) == "\n") then return follow(text, at) end
    end
  end,
  ahead = function(node, follow)
    local inner = sequence_matcher(node[3], 1, function(_, at) return at end)
    return function(text, at) if (inner(text, at) ~= nil) == node[2] then return follow(text, at) end end
  end,
  behind = function(node, follow)
    local set = members(node[3])
    return function(text, at)
      if (at > 1 and set[text:byte(at - 1)] or false) == node[2] then return follow(text, at) end
    end
  end,
  branch = function(node, follow)
    local ways = {}
    for place, sequence in ipairs(node[2]) do ways[place] = sequence_matcher(sequence, 1, follow) end
    return function(text, at)
      for _, way in ipairs(ways) do
        local found = way(text, at)
        if found then return found end
      end
    end
  end,
  ["repeat"] = function(node, follow)
    local least, most, sequence = node[2], node[3], node[4]
    if most < 0 then most = math.huge end
    if #sequence == 1 and sequence[1][1] == "set" then
      local set = members(sequence[1][2])
      return function(text, at)
        local count = 0
        while count < most and set[text:byte(at + count)] do count = count + 1 end
        steps = steps + count
        for taken = count, least, -1 do
          local found = follow(text, at + taken)
          if found then return found end
        end
      end
    end
    local function after(count)
      return function(text, at)
        if count < most then
          local found = sequence_matcher(sequence, 1, after(count + 1))(text, at)
          if found then return found end
        end
        if count >= least then return follow(text, at) end
      end
    end
    return after(0)
  end,
}

function sequence_matcher(sequence, place, follow)
  if place > #sequence then return follow end
  local node = sequence[place]
  local inner = makers[node[1]](node, sequence_matcher(sequence, place + 1, follow))
  return function(text, at)
    steps = steps + 1
    if steps > MOST_STEPS then error("a job's name takes too many steps to match", 0) end
    return inner(text, at)
  end
end

for _, rule in ipairs(RULES) do
  rule.match = sequence_matcher(rule[1], 1, function(_, at) return at end)
end

local function replaced(text, rule)
  local parts, from, at = {}, 1, 1
  while at <= #text do
    local behind = rule.match(text, at)
    if behind then
      parts[#parts + 1] = text:sub(from, at - 1) .. rule[2]
      from, at = behind, behind
    else
      at = at + 1
    end
  end
  parts[#parts + 1] = text:sub(from)
  return table.concat(parts)
end

-- As Python strips blanks: also the separators 28 to 31.
local BLANKS = "[\9-\13\28-\32]"

-- The application of an ASCII name by the built-in rules; nil where only numbers and separators remain.
local function application_of(name)
  local text = name:sub(1, MOST_CHARACTERS):lower():gsub("^" .. BLANKS .. "+", ""):gsub(BLANKS .. "+$", "")
  steps = 0
  for _, rule in ipairs(RULES) do text = replaced(text, rule) end
  text = text:gsub("^%-+", ""):gsub("%-+$", "")
  if text ~= "" then return text end
end

-- ---------------------------------------------------------------- the look-up file
local current = { line = "" }

local function path_of_lookup()
  if SETTINGS.path then return SETTINGS.path end
  local conf = os.getenv("SLURM_CONF") or "/etc/slurm/slurm.conf"
  return (conf:gsub("[^/]*$", "")) .. "walltime.lookup"
end

-- The steps of a chain: rank and columns of each.
local function chain_of(line)
  local chain = {}
  for rank, template in line:gmatch("(%d+):(%S+)") do
    local columns = {}
    if template ~= "all" then
      for name in template:gmatch("[^+]+") do columns[#columns + 1] = name end
    end
    chain[#chain + 1] = { rank = rank, columns = columns }
  end
  return chain
end

local function hash_of(key, multiplier)
  local found = 0
  for at = 1, #key do found = (found * multiplier + key:byte(at)) % PRIME end
  return found
end

-- The facts of a file whose first line is new; an error where it is no look-up, or was cut.
local function read_facts(file, line)
  if line:sub(1, #FORMAT) ~= FORMAT then error("the look-up begins with another line", 0) end
  local facts = { line = line, applications = {}, n_names = 0 }
  for name, value in line:gmatch("([%w_]+)=(%S+)") do facts[name] = value end
  for _, name in ipairs({ "buckets", "multiplier", "directory", "bytes", "rows", "newest_end_s", "check" }) do
    facts[name] = tonumber(facts[name]) or error("the look-up's first line has no number of " .. name, 0)
  end
  local heading = { (line:gsub(" check=%d+$", "")) }
  for place = 2, 4 do heading[place] = file:read("*l") or "" end
  if hash_of(table.concat(heading, "\n") .. "\n", facts.multiplier) ~= facts.check then
    error("the look-up's first lines are damaged", 0)
  end
  facts.chain, facts.memory_chain = chain_of(heading[2]), chain_of(heading[3])
  return facts
end

-- The text behind a key, or nil; an error where its row is damaged.
local function line_of(file, facts, key)
  file:seek("set", facts.directory + ENTRY_BYTES * (hash_of(key, facts.multiplier) % facts.buckets))
  local from, to = (file:read(2 * ENTRY_BYTES) or ""):match("^(%d+)\n(%d+)\n$")
  if not from then error("the look-up's directory is damaged", 0) end
  local size = tonumber(to) - tonumber(from)
  if size <= 0 or size > MOST_BYTES then return nil end
  file:seek("set", tonumber(from))
  local lines = "\n" .. (file:read(size) or "")
  local start, behind = lines:find("\n" .. key .. "\t", 1, true)
  if not start then return nil end
  local text, check = lines:match("^([^\n]*)\t(%d+)\n", start + 1)
  if not text or hash_of(text, facts.multiplier) ~= tonumber(check) then error("a row of the look-up is damaged", 0) end
  return text:sub(behind - start + 1)
end

local function quoted(text)
  return (text:gsub("[^A-Za-z0-9_.~@+-]", function(character) return ("%%%02X"):format(character:byte()) end))
end

local function unquoted(text)
  return (text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

-- The value of `what` of a job's name: its application, else `job_name` and the name; nil where it cannot be told.
local function what_of(file, facts, name)
  local known = facts.applications[name]
  if known == nil then
    local listed = line_of(file, facts, "n|" .. quoted(name))
    if listed then
      known = unquoted(listed)
    elseif SETTINGS.has_own_name_rules or name:find("[\128-\255]") then
      known = false
    else
      known = application_of(name) or "job_name " .. name
    end
    if facts.n_names >= MOST_NAMES then facts.applications, facts.n_names = {}, 0 end
    facts.applications[name], facts.n_names = known, facts.n_names + 1
  end
  return known or nil
end

local function key_of(step, job)
  local parts = { step.rank }
  for _, name in ipairs(step.columns) do
    local value = job[name]
    if value == nil then return nil end
    parts[#parts + 1] = type(value) == "number" and ("%.17g"):format(value) or quoted(value)
  end
  return table.concat(parts, "|")
end

-- Rank, number of jobs and quantiles (s) of the first row that is present, or nil.
local function find(file, facts, job)
  for _, step in ipairs(facts.chain) do
    local key = key_of(step, job)
    local line = key and line_of(file, facts, key)
    if line then
      local numbers = {}
      for word in line:gmatch("[^\t]+") do numbers[#numbers + 1] = tonumber(word) end
      local quantiles, is_ratio = {}, #numbers > 7 and job.requested_s > 0
      for place = 1, 6 do
        quantiles[place] = is_ratio and numbers[place + 7] * job.requested_s or numbers[place + 1]
        if place <= 2 and job.requested_s > 0 then quantiles[place] = math.min(quantiles[place], job.requested_s) end
      end
      return { rank = step.rank, n_jobs = numbers[1], quantiles = quantiles }
    end
  end
end

-- What to ask for, KiB per processor, which is never less than was used, and the jobs behind it; or nil.
local function find_memory(file, facts, job)
  for _, step in ipairs(facts.memory_chain) do
    local key = key_of(step, job)
    local line = key and line_of(file, facts, "m" .. key)
    if line then
      local ask_kib, n_jobs = line:match("^(%d+)\t(%d+)$")
      return { ask_kib = tonumber(ask_kib), n_jobs = tonumber(n_jobs) }
    end
  end
end

-- The type of GPUs of a submit that names none: that of its queue, if it has one alone.
local function type_of_queue(file, facts, queue)
  local line = queue and line_of(file, facts, "q|" .. quoted(queue))
  return line and unquoted(line) or "gpu"
end

-- ---------------------------------------------------------------- Slurm
local complaint

local function complain(text)
  text = tostring(text)
  if text ~= complaint then
    complaint = text
    slurm.log_error("walltime: %s; jobs are left as they are", text)
  end
end

-- Call `use(file, facts)` with the look-up of this moment, and close it.
local function with_lookup(use)
  local file, why = io.open(path_of_lookup(), "rb")
  if not file then error(why, 0) end
  local is_done, found, more, most, last, also = pcall(function()
    local line = file:read("*l") or ""
    if line ~= current.line then
      current = read_facts(file, line)
      slurm.log_info("walltime: look-up of run %s, %d estimates, stamp %s",
        tostring(current.run), current.rows, tostring(current.stamp))
    end
    -- At each submit, because a file that is written in place begins with the same line.
    if file:seek("end") ~= current.bytes then error("the look-up was cut, or is still being copied", 0) end
    return use(file, current)
  end)
  file:close()
  if not is_done then
    current = { line = "" }
    error(found, 0)
  end
  complaint = nil
  return found, more, most, last, also
end

local function known(number)
  if number and number ~= NO_VAL and number ~= INFINITE then return number end
end

local function default_partition(parts)
  for name, part in pairs(parts or {}) do
    if known(part.flag_default) and part.flag_default ~= 0 then return name end
  end
end

-- The limit (min) that the job would have: its own, else its partition's default, else that partition's largest.
local function asked_min(job, part)
  if job.time_limit == INFINITE then return nil end
  return known(job.time_limit) or (part and (known(part.default_time) or known(part.max_time)))
end

local function procs_of(job)
  local tasks = known(job.num_tasks)
  local threads = known(job.cpus_per_task)
  if threads == 65534 or threads == 65535 then threads = nil end
  -- Of `-N2-4` the accounting tells one requested processor, as min_cpus does.
  return math.max(known(job.min_cpus) or (tasks and tasks * (threads or 1)) or 1, 1)
end

-- GPUs asked for, nil where their number cannot be told, and the first type that is named.
local function gpus_of(job)
  local times = { tres_per_job = 1, tres_per_node = known(job.min_nodes) or 1, tres_per_task = known(job.num_tasks) or 1 }
  local total, kind = 0, nil
  for _, field in ipairs({ "tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket" }) do
    for one in (job[field] or ""):gmatch("[^,]+") do
      if one:find("gpu", 1, true) then
        if not times[field] then return nil end
        kind = kind or one:match("gpu:([A-Za-z][%w_.-]*)")
        total = total + times[field] * (tonumber(one:match("[:=](%d+)$")) or 1)
      end
    end
  end
  return total, kind
end

-- Memory asked for per processor, KiB; nil where the submit leaves it open.
local function memory_kib_of(job)
  local per_cpu, per_node = job.min_mem_per_cpu, job.min_mem_per_node
  local function is_given(mib) return mib and mib > 0 and mib < 2 ^ 50 end
  local mib = is_given(per_cpu) and per_cpu
    or is_given(per_node) and per_node * (known(job.min_nodes) or 1) / procs_of(job)
  return mib and mib * 1024
end

-- Whether one of the user, the account and the partitions (`names`, comma between them) is in the lists.
local function is_listed(lists, job, names)
  if lists.users[job.user_name or ""] or lists.accounts[job.account or job.default_account or ""] then return true end
  for name in names:gmatch("[^,]+") do
    if lists.partitions[name] then return true end
  end
  return false
end

-- Whether the job's limit is never ours: its user or the site says so, or nobody has asked for it. The user's word
-- counts in any spelling and among other words, as in "urgent; Walltime = OFF".
local function is_left_alone(job, names)
  if ((job.comment or ""):lower() .. " "):find("walltime%s*[:=_-]?%s*off[^%w]") then return true end
  if is_listed(SETTINGS.opt_out, job, names) then return true end
  return SETTINGS.has_opt_in and not is_listed(SETTINGS.opt_in, job, names)
end

-- Whether the look-up is too old to limit a job; said once.
local old_stamp
local function is_too_old(facts)
  local age_s = os.time() - facts.newest_end_s
  if age_s <= SETTINGS.max_age_s then return false end
  if old_stamp ~= facts.stamp then
    old_stamp = facts.stamp
    slurm.log_error("walltime: the newest job of the look-up ended %d days ago; no limit is set", math.floor(age_s / 86400))
  end
  return true
end

-- Options of #SBATCH lines whose jobs keep their requests: a signal before a shorter limit would come too early.
local KEEPS = { "signal", "deadline", "time-min", "reservation" }

-- Whether a script has one of them, which sbatch lets users shorten, before the first command.
local function script_keeps(script)
  for line in script:gmatch("[^\n]+") do
    if not line:find("^%s*#") and line:find("%S") then return false end
    for word in (line:match("^#SBATCH(%s.*)") or ""):gmatch("%s%-%-([%w-]+)") do
      for _, option in ipairs(KEEPS) do
        if word ~= "time" and #word > 2 and option:sub(1, #word) == word then return true end
      end
    end
  end
  return false
end

-- Whether the request, from now, would end after the start of a maintenance reservation: the request stands, so that
-- Slurm plans the job as it would have. Which nodes the job would get is not known yet.
local function crosses_reservation(request_s)
  local ok, found = pcall(function()
    for _, one in pairs(slurm.reservations or {}) do
      local start = known(one.start_time) or 0
      if start > os.time() and start < os.time() + request_s then return true end
    end
    return false
  end)
  return not ok or found
end

-- Whether the job's limit may be lowered: its user has given one, which the partition allows, and it is a batch job with
-- nothing that depends on its limit. A limit that the user left open may be set later by a QOS.
local function is_ours_to_lower(job, part)
  local own, most = known(job.time_limit), part and known(part.max_time)
  local is_het = known(job.het_job_offset) ~= nil
  return own and own <= (most or own) and (known(job.time_min) or 0) == 0 and not is_het
    and (job.script or "") ~= "" and (job.reservation or "") == ""
    and not script_keeps(job.script) and not (job.environment or {}).SBATCH_SIGNAL
end

-- Whether the guard is at work: the heartbeat is the time of its last round, s since 1970.
local function is_guarded()
  local file = io.open((path_of_lookup():gsub("[^/]*$", "")) .. SETTINGS.heartbeat, "rb")
  if not file then return false end
  local beat_s = tonumber((file:read(32) or ""):match("^%d+"))
  file:close()
  return beat_s ~= nil and math.abs(os.time() - beat_s) < SETTINGS.heartbeat_s
end

-- The limit (min) that the job is planned with first; nil where its request stands. As `planned_limits` of
-- pipeline/limits/soft.py.
local function planned_min(asked, quantile_s)
  local limit = math.max(math.ceil(quantile_s / 60), math.ceil(2 * SETTINGS.margin_s / 60))
  if asked - limit >= math.max(SETTINGS.least_saved_s / 60, SETTINGS.least_saved_share * asked) then return limit end
end

-- Short jobs first: a step of priority for each halving of the expected runtime below a day, at least a minute.
local function site_factor(median_s)
  local expected_s = math.max(median_s, 60)
  return math.floor(SETTINGS.priority_per_halving * math.log(86400 / expected_s) / math.log(2) + 0.5)
end

local function comment(job, text)
  if job.admin_comment and job.admin_comment ~= "" then text = job.admin_comment .. "; " .. text end
  job.admin_comment = text
end

-- What the comment says of memory, MiB of the whole job, and tells the user where half of it would do. No request of
-- memory is ever changed.
local function memory_words(job, memory, mem_kib)
  local ask_mib, asked_mib = procs_of(job) * memory.ask_kib / 1024, procs_of(job) * mem_kib / 1024
  if SETTINGS.mode == "limit" and 2 * ask_mib <= asked_mib then
    slurm.log_user("walltime: %d earlier jobs of yours like this one would have done with %.0f MiB of memory; this one "
      .. "asks for %.0f", memory.n_jobs, ask_mib, asked_mib)
  end
  return (" mem_jobs=%d mem_mib=%.0f asked_mem_mib=%.0f"):format(memory.n_jobs, ask_mib, asked_mib)
end

local IS_ORDERED = SETTINGS.order and SETTINGS.mode == "limit"

-- A job whose own runtime is not to be used is ordered as its partition's median job, so that leaving gains nothing.
local function order_as_median(file, facts, job, names)
  local median_s = line_of(file, facts, "t|" .. quoted(names))
  if median_s then job.site_factor = site_factor(tonumber(median_s)) end
end

local function adjust(job, parts)
  local names = job.partition or default_partition(parts) or ""
  if SETTINGS.mode == "off" then return end
  if is_left_alone(job, names) then
    if IS_ORDERED then with_lookup(function(file, facts) order_as_median(file, facts, job, names) end) end
    return
  end
  local part = (parts or {})[names]
  local asked = asked_min(job, part)
  local mem_kib = memory_kib_of(job)
  local stamp, answer, memory, is_new, is_early = with_lookup(function(file, facts)
    -- Of several partitions it is not known where the job will run.
    local queue = names ~= "" and not names:find(",", 1, true) and names or nil
    local gpus, gpu_type = gpus_of(job)
    if gpus == 0 then gpu_type = "" elseif gpus then gpu_type = gpu_type or type_of_queue(file, facts, queue) end
    local values = {
      who = job.user_name,
      -- slurmctld stores a double quote as a backtick, and the accounting tells that.
      what = job.name and what_of(file, facts, (job.name:gsub('"', "`"))),
      queue = queue,
      requested_s = (asked or 0) * 60,
      procs = procs_of(job),
      gpus = gpus,
      gpu_type = gpu_type,
      requested_mem_kib = mem_kib and math.floor(mem_kib + 0.5),
    }
    local new = not is_too_old(facts)
    -- Runs of such a kind stop themselves before a limit that they see.
    local early = line_of(file, facts, "s|" .. quoted(values.who or "") .. "|" .. quoted(values.what or ""))
    local found, asks = find(file, facts, values), new and find_memory(file, facts, values) or nil
    if IS_ORDERED and not found then order_as_median(file, facts, job, names) end
    return facts.stamp, found, asks, new, early
  end)
  if not answer and not memory then return end
  local is_ours = not is_early and is_ours_to_lower(job, part)
  local limit = answer and is_new and is_ours and not crosses_reservation(asked * 60)
    and planned_min(asked, answer.quantiles[SETTINGS.quantile_place]) or nil
  if limit and SETTINGS.mode == "limit" and not is_guarded() then limit = nil end
  -- Ingest and the guard read this (pipeline/ingest/slurm_texts.py): Slurm itself forgets what was asked for, and the
  -- guard, which does not see the script, leaves a job alone whose limit_min is "keep".
  local text = ("walltime mode=%s stamp=%s row=%s jobs=%d median_s=%s limit_min=%s asked_min=%s"):format(
    SETTINGS.mode, stamp, answer and answer.rank or "none", (answer or memory).n_jobs,
    answer and ("%.0f"):format(answer.quantiles[2]) or "none",
    limit and ("%d"):format(limit) or is_ours and "same" or "keep", asked and ("%d"):format(asked) or "none")
  if SETTINGS.mode == "limit" then
    if limit then
      job.time_limit = limit
      slurm.log_user("walltime: planned with %d min; your job may run for the %d min that it asks for. To leave it as "
        .. "it is, submit with --comment=%s", limit, asked, OPT_OUT_WORD)
    end
    if SETTINGS.order and answer then job.site_factor = site_factor(answer.quantiles[2]) end
  end
  if memory then text = text .. memory_words(job, memory, mem_kib) end
  comment(job, text)
end

function walltime_adjust(job, parts)
  local is_done, why = pcall(adjust, job, parts)
  if not is_done then complain(why) end
end

function slurm_job_submit(job, parts, submit_uid)
  walltime_adjust(job, parts)
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, parts, modify_uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
