package pipeline

import (
	"time"

	"github.com/leat-dev/leat/device"
	"github.com/leat-dev/leat/pipeline/histogram"
	"github.com/leat-dev/leat/stage"
)

// LineStats sums up what a line has done since it was opened.
type LineStats struct {
	Rows   histogram.Snapshot[int] // the numbers of rows of the batches that were sent
	Stages []StageStats            // in forward order
}

// StageStats sums up what a stage has done. If the stage has replicas, stage.Stats has
// the sums over all of them.
type StageStats struct {
	StagePlan
	stage.Stats
	Share    float64        // the fraction, from 0 to 1, of the time since the start that the stage was busy; the mean over its replicas
	Queue    int            // how many batches wait for the stage now
	Replicas []ReplicaStats // one for each replica; nil if there is one
}

// ReplicaStats sums up what one replica of a stage has done. Share and Queue are as in
// StageStats.
type ReplicaStats struct {
	Device device.Info
	stage.Stats
	Share float64
	Queue int
}

// Stats returns what the line has done so far.
func (l *Line) Stats() LineStats { return LineStats{Rows: l.rows.Snapshot(), Stages: l.stageStats()} }

func (l *Line) stageStats() []StageStats {
	since := time.Since(l.started)
	stats := make([]StageStats, len(l.stages))
	for i, replicas := range l.stages {
		all := &stats[i]
		all.StagePlan = l.plan.Stages[i]
		for j, replica := range all.StagePlan.Each() {
			r := ReplicaStats{Device: replica.Device, Stats: replicas[j].Stats(), Queue: l.links[i][j].Len()}
			r.Share = min(1, float64(r.Busy)/float64(max(1, since)))
			all.Stats = all.Stats.Plus(r.Stats)
			all.Share += r.Share / float64(len(replicas))
			all.Queue += r.Queue
			if len(replicas) > 1 {
				all.Replicas = append(all.Replicas, r)
			}
		}
	}
	return stats
}
