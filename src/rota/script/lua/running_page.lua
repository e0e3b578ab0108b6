#!lua flags=no-writes
-- include: clock consumer delivery job_rows sorted_scan
-- args: lane task cursor limit looks
-- resend: yes
-- A page of the jobs in flight, consumer by consumer; lane and task '' mean any.
-- cursor: {} at the start; else {scan of the consumers, consumer, scan of its hash, job}: behind which
-- to go on (job '' and scan '0' where all of the consumer was looked at).
-- Gives at most `limit` and looks at no more than `looks` jobs and consumers, so a page may be empty and
-- not the last. What changes hands between pages may be told twice, or not at all.
-- Reply: cursor ({} after the last page), rows (see job_rows), now
local scan, consumer, fields, job = unpack(cursor)
scan, consumer, fields, job = scan or '0', consumer or '', fields or '0', job or ''

local function is_of_lane(delivery)
  local held = lane ~= '' and read_delivery(delivery)
  return lane == '' or (held and held.lane == lane)
end

local function look_at_field(id, delivery, name)
  if is_own(id) or not is_of_lane(delivery) then
    look_past()
  else
    look_at_job(id, '', task, 0, name)
  end
end

-- Looks at what the consumer holds; says whether there is room left.
local function look_at_consumer()
  local name, hash = consumer_name(consumer) or '', k_consumer(consumer)
  repeat
    local ids, deliveries, after = scan_sorted('HSCAN', hash, fields, job ~= '' and job, 2)
    for _, id in ipairs(ids) do
      job = id
      look_at_field(id, deliveries[id], name)
      if page_is_full(limit, looks) then
        return false
      end
    end
    fields, job = after, ''
  until fields == '0'
  return true
end

local has_room = (job == '' and fields == '0') or look_at_consumer()
while has_room do
  local names, _, after = scan_sorted('ZSCAN', k_consumers, scan, consumer ~= '' and consumer, 2)
  for _, name in ipairs(names) do
    consumer, fields, job = name, '0', ''
    has_room = look_at_consumer()
    if not has_room then
      break
    end
  end
  if has_room then
    scan, consumer = after, ''
    if scan == '0' then
      return { {}, job_rows, now }
    end
  end
end
return { { scan, consumer, fields, job }, job_rows, now }
