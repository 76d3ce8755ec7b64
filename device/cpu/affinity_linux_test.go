package cpu

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// here returns the cores that the calling thread may use, none if the kernel
// doesn't say.
func here() (cores []int) {
	m := unix.NewCPUSet(64 * len(processMask))
	if unix.SchedGetaffinityDynamic(0, m) != nil {
		return nil
	}
	for core := range 64 * len(m) {
		if m.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores
}

// pinnedThreads returns the core lists of the process's threads that may not
// use all cores.
func pinnedThreads(t testing.TB) (lists []string) {
	t.Helper()
	all := strings.ReplaceAll(formatCores(processCores()), "+", ",")
	allowed := regexp.MustCompile(`Cpus_allowed_list:\s*(\S+)`)
	threads, err := filepath.Glob("/proc/self/task/*/status")
	require.NoError(t, err)
	require.NotEmpty(t, threads)
	for _, file := range threads {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if m := allowed.FindSubmatch(status); m != nil && string(m[1]) != all {
			lists = append(lists, string(m[1]))
		}
	}
	return lists
}

func TestVisitorsAndHelpersHaveACoreEach(t *testing.T) {
	cores := processCores()
	if len(cores) < 2 {
		t.Skip("needs two cores")
	}
	require.Equal(t, cores, here())
	d := crowd(2)
	q := &Queue{device: d}
	for range 100 {
		q.brief = false
		q.Begin()
		require.Equal(t, cores[:1], here())
		elsewhere := make(chan []int)
		go func() { // a thread started meanwhile inherits nothing
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			elsewhere <- here()
		}()
		require.Equal(t, cores, <-elsewhere)
		var helper []int
		for helper == nil {
			q.Parallel(2, &countJob{part: func(_, worker int) {
				if worker == 1 {
					helper = here()
				}
			}})
		}
		require.Equal(t, cores[1:2], helper)
		q.End()
		require.Equal(t, cores, here())
	}
	require.Len(t, pinnedThreads(t), 1, "the helper's")
	require.NoError(t, d.Close())
	require.Empty(t, pinnedThreads(t))
}

// A visit is worth a move only if the one before it was long.
func TestBriefVisitsStayWhereTheyAre(t *testing.T) {
	cores := processCores()
	if len(cores) < 2 {
		t.Skip("needs two cores")
	}
	synctest.Test(t, func(t *testing.T) {
		d := crowd(2)
		q := &Queue{device: d}
		visit := func(took time.Duration) []int {
			q.Begin()
			defer q.End()
			<-time.After(took) // the test's own time
			return here()
		}
		require.Equal(t, cores[:1], visit(worthMoving), "nothing is known yet")
		require.Equal(t, cores[:1], visit(worthMoving-1))
		require.Equal(t, cores, visit(worthMoving))
		require.Equal(t, cores[:1], visit(0))
		require.NoError(t, d.Close())
	})
}

func TestADeviceOfAllCoresPinsNobody(t *testing.T) {
	q := newQueue(t, "cpu")
	q.Begin()
	q.Parallel(8, &countJob{})
	require.Empty(t, pinnedThreads(t))
	q.End()
}

func TestACoreThatIsGoneIsNoError(t *testing.T) {
	d := crowd(2)
	d.core = maskOf(64*len(processMask) - 1) // no machine at hand has that many
	if pin(d.core) {
		unpin()
		t.Skip("this machine has them all")
	}
	q := &Queue{device: d}
	q.Begin()
	require.Equal(t, processCores(), here())
	q.End()
	require.NoError(t, d.Close())
}
