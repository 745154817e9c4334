// Load on locks in Go: callers that acquire and release in a loop, by etcd's own client or by a sidecar and redigo.
//
// It prints one JSON object: begin and end of the measured time, and for each caller the times at which it requested, was
// granted and released the lock, all in nanoseconds since the start.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const (
	warmUp = 500 * time.Millisecond
	// Long enough that no lease expires during a run.
	leaseSeconds = 200
)

type lock interface {
	acquire() error
	release() error
}

// Each caller has a separate connection and session, as callers in separate processes would have.
type etcdLock struct{ mutex *concurrency.Mutex }

func newEtcdLock(port int, name string) (lock, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", port)}})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(leaseSeconds))
	if err != nil {
		return nil, err
	}
	return &etcdLock{concurrency.NewMutex(session, "/"+name)}, nil
}

func (l *etcdLock) acquire() error { return l.mutex.Lock(context.Background()) }
func (l *etcdLock) release() error { return l.mutex.Unlock(context.Background()) }

type interlockLock struct {
	connection redis.Conn
	name       string
	token      string
}

func newInterlockLock(port int, name string) (lock, error) {
	connection, err := redis.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return &interlockLock{connection: connection, name: name}, err
}

func (l *interlockLock) acquire() error {
	reply, err := redis.Values(l.connection.Do("LOCK.ACQUIRE", l.name, leaseSeconds*1000, "WAIT", 60_000))
	if err == nil {
		l.token, err = redis.String(reply[0], nil)
	}
	return err
}

func (l *interlockLock) release() error {
	_, err := l.connection.Do("LOCK.RELEASE", l.name, l.token)
	return err
}

var libraries = map[string]func(int, string) (lock, error){"etcd": newEtcdLock, "interlock": newInterlockLock}

func main() {
	library := flag.String("library", "etcd", "etcd or interlock")
	port := flag.Int("port", 0, "the port of the server on this host")
	callers := flag.Int("callers", 1, "the number of callers")
	apart := flag.Bool("apart", false, "give each caller a separate lock")
	seconds := flag.Float64("seconds", 5, "the measured time")
	flag.Parse()

	start := time.Now()
	locks := make([]lock, *callers)
	for number := range locks {
		name := "handover"
		if *apart {
			name = fmt.Sprintf("handover-%d", number)
		}
		created, err := libraries[*library](*port, name)
		if err != nil {
			log.Fatal(err)
		}
		locks[number] = created
	}
	begin := time.Since(start) + warmUp
	end := begin + time.Duration(*seconds*float64(time.Second))
	turns := make([][][3]int64, *callers)
	var running sync.WaitGroup
	for number, l := range locks {
		running.Add(1)
		go func(number int, l lock) {
			defer running.Done()
			for time.Since(start) < end {
				requested := time.Since(start)
				if err := l.acquire(); err != nil {
					log.Fatal(err)
				}
				granted := time.Since(start)
				turns[number] = append(turns[number], [3]int64{int64(requested), int64(granted), int64(time.Since(start))})
				if err := l.release(); err != nil {
					log.Fatal(err)
				}
			}
		}(number, l)
	}
	running.Wait()
	err := json.NewEncoder(os.Stdout).Encode(map[string]any{"begin": int64(begin), "end": int64(end), "turns": turns})
	if err != nil {
		log.Fatal(err)
	}
}
