package trace

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// format turns events into the text of a trace, as the Trace Event Format has it
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU):
// a JSON array, of which viewers also take the beginning alone, so that the trace
// of a program that was killed can be opened too.
type format struct {
	text   []byte
	lanes  map[[2]int]int // the number of the lane of a stage and replica
	latest map[uint64]mark
	arrows uint64
}

// mark is where a batch was last.
type mark struct {
	lane int
	at   time.Duration
}

// The numbers of the lanes that are there from the beginning. A lane is what the
// format calls a thread.
const (
	laneFilled = iota + 1
	laneEmptied
	laneStages // the first of the others
)

// mostBatches is above what can be in flight: more are known only where it was
// dropped that they ended.
const mostBatches = 1 << 12

func newFormat() *format {
	f := &format{lanes: map[[2]int]int{}, latest: map[uint64]mark{}}
	f.text = append(f.text, "[\n"...)
	f.text = append(f.text, `{"ph":"M","pid":1,"name":"process_name","args":{"name":"leat"}}`...)
	f.lane(laneFilled, "batches formed", 0)
	f.lane(laneEmptied, "results", 1<<30)
	return f
}

// lane names a lane and says where it stands.
func (f *format) lane(number int, name string, place int) {
	f.line(`{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":%s}}`, number, quoted(name))
	f.line(`{"ph":"M","pid":1,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}}`, number, place)
}

// laneOf is the lane that an event belongs to.
func (f *format) laneOf(e *event) int {
	switch e.kind {
	case filled:
		return laneFilled
	case emptied:
		return laneEmptied
	}
	at := [2]int{e.stage, e.replica}
	number, known := f.lanes[at]
	if !known {
		number = laneStages + len(f.lanes)
		f.lanes[at] = number
		f.lane(number, fmt.Sprintf("stage %d on %s: %s", e.stage, e.device, e.layers), 1+e.stage<<12+e.replica)
	}
	return number
}

// event writes an event: its slice, the parts of it, and the arrow to it.
func (f *format) event(e *event) {
	lane := f.laneOf(e)
	name := "batch " + strconv.FormatUint(e.batch, 10)
	f.slice(lane, name, e.at, e.took())
	f.args(e)
	const worth = time.Microsecond // a part that is shorter isn't drawn
	if e.transfer >= worth || e.turn >= worth {
		at := e.at
		for _, part := range []struct {
			name string
			took time.Duration
		}{{"transfer", e.transfer}, {"wait for the device", e.turn}, {"compute", e.compute}} {
			if part.took >= worth {
				f.slice(lane, part.name, at, part.took)
				f.text = append(f.text, '}')
			}
			at += part.took
		}
	}
	if from, known := f.latest[e.batch]; known {
		f.arrows++
		from.at = min(from.at, e.at) // two devices' times are not quite the same
		f.arrow("s", from, "")
		f.arrow("f", mark{lane, e.at}, `,"bp":"e"`) // to the slice around the time, not to the next
	}
	if e.kind == emptied {
		delete(f.latest, e.batch)
		return
	}
	if len(f.latest) == mostBatches {
		clear(f.latest)
	}
	// The arrow begins within the slice: at its end there is none any more.
	f.latest[e.batch] = mark{lane, e.at + max(0, e.took()-1)}
}

// slice writes a slice that isn't closed yet.
func (f *format) slice(lane int, name string, at, took time.Duration) {
	f.text = append(f.text, ",\n"+`{"ph":"X","pid":1,"tid":`...)
	f.text = strconv.AppendInt(f.text, int64(lane), 10)
	f.text = append(f.text, `,"ts":`...)
	f.text = appendTime(f.text, at)
	f.text = append(f.text, `,"dur":`...)
	f.text = appendTime(f.text, took)
	f.text = append(f.text, `,"name":"`...)
	f.text = append(f.text, name...)
	f.text = append(f.text, '"')
}

// args closes a slice with what there is to know of the batch.
func (f *format) args(e *event) {
	f.text = append(f.text, `,"args":{"batch":`...)
	f.text = strconv.AppendUint(f.text, e.batch, 10)
	f.text = append(f.text, `,"rows":`...)
	f.text = strconv.AppendInt(f.text, int64(e.rows), 10)
	if e.kind != worked {
		f.text = append(f.text, `,"outputs":`...)
		f.text = strconv.AppendInt(f.text, int64(e.outputs), 10)
	}
	if e.err != nil {
		f.text = append(f.text, `,"error":`...)
		f.text = append(f.text, quoted(e.err.Error())...)
	}
	f.text = append(f.text, "}}"...)
}

// arrow writes an end of an arrow.
func (f *format) arrow(end string, at mark, more string) {
	f.text = append(f.text, ",\n"+`{"ph":"`...)
	f.text = append(f.text, end...)
	f.text = append(f.text, `","pid":1,"tid":`...)
	f.text = strconv.AppendInt(f.text, int64(at.lane), 10)
	f.text = append(f.text, `,"ts":`...)
	f.text = appendTime(f.text, at.at)
	f.text = append(f.text, `,"cat":"batch","name":"batch","id":`...)
	f.text = strconv.AppendUint(f.text, f.arrows, 10)
	f.text = append(f.text, more...)
	f.text = append(f.text, '}')
}

// end writes the end of the trace, and what is missing in it.
func (f *format) end(at time.Duration, dropped int64) {
	if dropped > 0 {
		f.line(`{"ph":"i","s":"g","pid":1,"tid":%d,"ts":%s,"name":"%d events were dropped: they came faster than they could be written","args":{"dropped":%d}}`,
			laneFilled, appendTime(nil, at), dropped, dropped)
	}
	f.text = append(f.text, "\n]\n"...)
}

func (f *format) line(text string, args ...any) {
	f.text = fmt.Appendf(append(f.text, ",\n"...), text, args...)
}

// appendTime writes a time in microseconds, to the nanosecond.
func appendTime(text []byte, t time.Duration) []byte {
	if t < 0 {
		t = 0 // the trace began later than what it is told of
	}
	text = strconv.AppendInt(text, int64(t/1000), 10)
	text = append(text, '.')
	rest := int64(t % 1000)
	return append(text, byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}

func quoted(text string) []byte {
	q, _ := json.Marshal(text) // a string always can be
	return q
}
