//go:build linux

package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// usage is how much CPU time was used up to an instant.
type usage struct {
	at      time.Time
	server  time.Duration
	client  time.Duration // this process
	machine time.Duration // everything that ran, on all cores
}

func sample(pid int) usage {
	return usage{at: time.Now(), server: processCPU(pid), client: processCPU(os.Getpid()), machine: machineCPU()}
}

// processCPU is the CPU time of all threads of a process, to the nanosecond: the clock that clock_getcpuclockid(3)
// gives. The ticks of /proc/PID/stat are too coarse for a phase of a second. A process that is gone has 0.
func processCPU(pid int) time.Duration {
	const schedClock = 2
	var t syscall.Timespec
	id := ^pid<<3 | schedClock
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		return 0
	}
	return time.Duration(t.Nano())
}

// machineCPU is the busy time of all cores: user, nice, system, irq and softirq of /proc/stat.
func machineCPU() time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := bytes.Fields(line)
	var n int
	for _, i := range []int{1, 2, 3, 6, 7} {
		if i < len(f) {
			v, _ := strconv.Atoi(string(f[i]))
			n += v
		}
	}
	return time.Duration(n) * tick
}

// resident is a process's resident memory now and at its highest, in MB (10^6).
func resident(pid int) (now, high float64) {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(string(f[1]), 64)
		switch string(f[0]) {
		case "VmRSS:":
			now = kb * 1024 / 1e6
		case "VmHWM:":
			high = kb * 1024 / 1e6
		}
	}
	return now, high
}
